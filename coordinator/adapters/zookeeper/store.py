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

from coordinator.adapters.zookeeper.attachments import AttachmentWriter
from coordinator.adapters.zookeeper.audit import ZooKeeperAudit
from coordinator.adapters.zookeeper.definitions import DefinitionWriter
from coordinator.adapters.zookeeper.mirror import Node
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.watched import WatchedRecords
from coordinator.core.owners import OWNER_MAKERS, OwnerKind, attachments_of
from coordinator.ports import Catalogue, Versioned
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
        attachments = AttachmentWriter(session, audit)
        self.attach, self.detach = attachments.attach, attachments.detach
        self._groups_path = session.path("groups")
        self._tenants_path = session.path("attachments", "tenants")
        self._groups: dict[str, Versioned] = {}
        self._owners: dict[OwnerKind, dict[str, str]] = {kind: {} for kind in OwnerKind}
        #: Path to reason, of the entries that cannot be read now.
        self._faults: dict[str, str] = {}
        #: The number of times that an entry became unreadable since the start.
        self.faults_seen = 0
        namespaces_path = session.path("attachments", "namespaces")
        depths = {self._groups_path: 1, self._tenants_path: 1, namespaces_path: 2}
        super().__init__(session, "catalogue", depths)

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
        kind = OwnerKind.TENANT if directory == self._tenants_path else kind_at(tenant)
        newest = OWNER_SCHEMA if kind in OWNER_MAKERS else SCHEMA
        group = None if node is None else decode_attachment(node.data, newest)
        match kind:
            case OwnerKind.TENANT:
                _put(self._owners[kind], name, group)
            case OwnerKind.NAMESPACE:
                _put(self._owners[kind], f"{tenant}/{name}", group)
            case _:
                self._put_other(kind, name, group)

    def _put_other(self, kind: OwnerKind, node: str, group: str | None) -> None:
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
            attachments=attachments_of(self._owners),
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
