"""Group definitions and attachments in ZooKeeper.

A definition is the document of ``groups/<name>``; its version is that of `versioned`. How definitions are
written: `definitions`. Attachments, and why a group that is in use cannot be deleted: `attachments`. Who
changed what: `audit`.

Every sidecar copies all of it (`mirror`) and hands snapshots to its listeners. An entry that cannot be
read, because its bytes are invalid, because a newer release wrote it, or because ZooKeeper forbids it, is
a fault of that entry alone: it is logged once, counted, listed, and the last definition that could be
read stays, with its old version, so no sidecar can overwrite an entry that it cannot read.
"""

from __future__ import annotations

from typing import TypeVar

import structlog

from coordinator.adapters.zookeeper.attachments import AttachmentNode, AttachmentWriter
from coordinator.adapters.zookeeper.audit import ZooKeeperAudit
from coordinator.adapters.zookeeper.definitions import DefinitionWriter
from coordinator.adapters.zookeeper.mirror import Node
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.watched import WatchedRecords
from coordinator.core.owners import OwnerKind, TrafficOwner, attachments_of
from coordinator.ports import (
    ANONYMOUS,
    ANYTHING,
    Anything,
    Catalogue,
    Origin,
    Versioned,
)
from coordinator.wire.documents import (
    OWNER_SCHEMA,
    SCHEMA,
    DocumentError,
    decode_attachment,
    decode_group,
    validate_name,
)
from coordinator.wire.owner_names import kind_at, owner_of

_V = TypeVar("_V")

_log = structlog.get_logger(__name__)


class ZooKeeperStore(WatchedRecords[Catalogue]):
    """`coordinator.ports.GroupStore` on ZooKeeper.

    Invalid names raise ValueError, before any request. Where ZooKeeper does not answer a change, it may
    have been made or not.
    """

    def __init__(self, session: ZooKeeperSession) -> None:
        audit = ZooKeeperAudit(session)
        self.audit_entries, self.audit_entry = audit.entries, audit.entry
        definitions = DefinitionWriter(session)
        self.read_group, self.create_group = definitions.read, definitions.create
        self.update_group, self.delete_group = definitions.update, definitions.delete
        self._attachments = AttachmentWriter(session, audit)
        self._groups_path = session.path("groups")
        self._tenants_path = session.path("attachments", "tenants")
        self._groups: dict[str, Versioned] = {}
        self._tenants: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._owners: dict[OwnerKind, dict[str, str]] = {kind: {} for kind in OwnerKind}
        #: Path to reason, of the entries that cannot be read now.
        self._faults: dict[str, str] = {}
        #: The number of times that an entry became unreadable since the start.
        self.faults_seen = 0
        namespaces_path = session.path("attachments", "namespaces")
        depths = {self._groups_path: 1, self._tenants_path: 1, namespaces_path: 2}
        super().__init__(session, "catalogue", depths)

    async def attach_tenant(
        self,
        tenant: str,
        group: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Attach a tenant; see `AttachmentWriter.attach`."""
        await self._attachments.attach(
            AttachmentNode.of_tenant(tenant), validate_name(group), expected, by
        )

    async def attach_namespace(
        self,
        tenant: str,
        namespace: str,
        group: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Attach a namespace; see `AttachmentWriter.attach`."""
        owner = AttachmentNode.of_namespace(tenant, namespace)
        await self._attachments.attach(owner, validate_name(group), expected, by)

    async def detach_tenant(
        self, tenant: str, *, expected: str | Anything | None = ANYTHING, by: Origin = ANONYMOUS
    ) -> None:
        """Detach a tenant; see `AttachmentWriter.detach`."""
        await self._attachments.detach(AttachmentNode.of_tenant(tenant), expected, by)

    async def detach_namespace(
        self,
        tenant: str,
        namespace: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Detach a namespace; see `AttachmentWriter.detach`."""
        await self._attachments.detach(AttachmentNode.of_namespace(tenant, namespace), expected, by)

    async def attach_owner(
        self,
        owner: TrafficOwner,
        group: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Attach another owner; see `AttachmentWriter.attach`."""
        node = AttachmentNode.of_owner(owner)
        await self._attachments.attach(node, validate_name(group), expected, by)

    async def detach_owner(
        self,
        owner: TrafficOwner,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Detach another owner; see `AttachmentWriter.detach`."""
        await self._attachments.detach(AttachmentNode.of_owner(owner), expected, by)

    def _apply(self, path: str, node: Node | None) -> None:
        try:
            self._apply_readable(path, node)
        except DocumentError as error:
            self._note_fault(path, str(error))
        else:
            self._faults.pop(path, None)

    def _apply_readable(self, path: str, node: Node | None) -> None:
        """Take over one changed entry.

        Raises:
            DocumentError: it cannot be read; nothing was changed.
        """
        directory, _, name = path.rpartition("/")
        if node is not None:
            if node.refusal:
                raise DocumentError(node.refusal)
            _check_name(name)
        if directory == self._groups_path:
            _put(self._groups, name, None if node is None else _versioned(name, node))
            return
        tenant = directory.rpartition("/")[2]
        kind = None if directory == self._tenants_path else kind_at(tenant)
        newest = SCHEMA if kind is None else OWNER_SCHEMA
        group = None if node is None else decode_attachment(node.data, newest)
        if kind is not None:
            self._put_owner(kind, name, group)
        elif directory == self._tenants_path:
            _put(self._tenants, name, group)
        else:
            _put(self._namespaces, f"{tenant}/{name}", group)

    def _put_owner(self, kind: OwnerKind, node: str, group: str | None) -> None:
        try:
            owner = owner_of(kind, node)
        except DocumentError:
            if group is None:  # it never was an attachment
                return
            raise
        _put(self._owners[kind], owner.name, group)

    def _note_fault(self, path: str, reason: str) -> None:
        if self._faults.get(path) != reason:
            self._faults[path] = reason
            self.faults_seen += 1
            _log.error("store entry unreadable", path=path, reason=reason)

    def _snapshot(self) -> Catalogue:
        return Catalogue(
            groups=dict(self._groups),
            attachments=attachments_of(self._tenants, self._namespaces, self._owners),
            faults=dict(self._faults),
        )


def _versioned(name: str, node: Node) -> Versioned:
    return Versioned(decode_group(name, node.data, node.modified_zxid), node.modified_zxid)


def _check_name(name: str) -> None:
    try:
        validate_name(name)
    except ValueError as error:
        raise DocumentError(str(error)) from error


def _put(entries: dict[str, _V], key: str, value: _V | None) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value
