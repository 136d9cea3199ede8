"""Group definitions and attachments in ZooKeeper.

A definition is the document of ``groups/<name>``. Compare-and-set is ZooKeeper's own: a write names the
node's version. The definition's configuration version is the node's mzxid, the number of the
transaction that wrote it, which grows across delete and re-create where the node's version starts
again. Attachments, and why a group that is in use cannot be deleted: `zookeeper_attachments`.

Every sidecar copies all of it (`zookeeper_mirror`) and hands snapshots to its listeners. An entry that
cannot be read, because somebody wrote nonsense, because a newer release wrote it, or because ZooKeeper
forbids it, is a fault of that entry alone: it is logged once, counted, listed, and the last definition
that could be read stays, with its old version, so nobody can overwrite what he has not understood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from coordinator.adapters.zookeeper_attachments import AttachmentWriter, Owner
from coordinator.adapters.zookeeper_mirror import Node, ZooKeeperMirror
from coordinator.adapters.zookeeper_session import ZooKeeperSession
from coordinator.core.model import Attachments, ResourceGroup
from coordinator.ports import (
    AlreadyExists,
    Catalogue,
    InUse,
    NotFound,
    Unreadable,
    VersionConflict,
    Versioned,
)
from coordinator.wire.documents import (
    DocumentError,
    decode_attachment,
    decode_group,
    encode_group,
    validate_name,
)

_V = TypeVar("_V")

_log = structlog.get_logger(__name__)


class ZooKeeperStore:
    """`coordinator.ports.GroupStore` on ZooKeeper.

    Names that cannot be names raise ValueError, before anything is asked.
    """

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._attachments = AttachmentWriter(session)
        self._groups_path = session.path("groups")
        self._tenants_path = session.path("attachments", "tenants")
        self._namespaces_path = session.path("attachments", "namespaces")
        self._mirror = ZooKeeperMirror(
            session,
            {self._groups_path: 1, self._tenants_path: 1, self._namespaces_path: 2},
            self._apply,
            self._tell,
        )
        self._listeners: list[Callable[[Catalogue], None]] = []
        self._groups: dict[str, Versioned] = {}
        self._tenants: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        #: Path to reason, of what cannot be read now.
        self._faults: dict[str, str] = {}
        self._faults_seen = 0
        #: What was last told; None until everything was read once.
        self._catalogue: Catalogue | None = None

    @property
    def faults_seen(self) -> int:
        """How often an entry became unreadable since the start."""
        return self._faults_seen

    async def start(self) -> None:
        """Begin to copy; returns at once, with ZooKeeper up or down."""
        self._mirror.start()

    async def stop(self) -> None:
        """End copying; no listener is called afterwards."""
        await self._mirror.stop()

    def watch(self, listener: Callable[[Catalogue], None]) -> None:
        """Call the listener with the whole catalogue now and after every change.

        "Now" is as soon as it is known. Several changes at once are one call.
        """
        self._listeners.append(listener)
        if self._catalogue is not None:
            listener(self._catalogue)

    async def read_group(self, name: str) -> Versioned:
        """Read one group from ZooKeeper itself.

        Raises:
            NotFound: there is no such group.
            Unreadable: there is one, but its definition cannot be understood.
            StoreUnreachable: ZooKeeper did not answer.
        """
        path = self._group_path(name)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
            return Versioned(decode_group(name, data, stat.mzxid), stat.version)
        except NoNodeError as error:
            raise NotFound(f"there is no resource group {name}") from error
        except DocumentError as error:
            raise Unreadable(f"resource group {name}: {error}") from error

    async def create_group(self, group: ResourceGroup) -> Versioned:
        """Create a group.

        Raises:
            AlreadyExists: there is one of that name.
            StoreUnreachable: ZooKeeper did not answer; the group may exist now or not.
        """
        path, data = self._group_path(group.name), encode_group(group)

        def create(client: KazooClient) -> object:
            return client.create_async(path, data, makepath=True, include_data=True)

        try:
            _, stat = await self._session.call(create)
        except NodeExistsError as error:
            raise AlreadyExists(f"there is a resource group {group.name} already") from error
        return Versioned(decode_group(group.name, data, stat.mzxid), stat.version)

    async def update_group(self, group: ResourceGroup, version: int) -> Versioned:
        """Replace a group's definition if it still has that version.

        Raises:
            NotFound: there is no such group.
            VersionConflict: it has another version.
            StoreUnreachable: ZooKeeper did not answer; the definition is the old or the new one.
        """
        path, data = self._group_path(group.name), encode_group(group)
        if version < 0:  # to ZooKeeper, -1 is "whatever version it has"
            raise VersionConflict(f"no resource group has version {version}")
        try:
            stat = await self._session.call(lambda client: client.set_async(path, data, version))
        except NoNodeError as error:
            raise NotFound(f"there is no resource group {group.name}") from error
        except BadVersionError as error:
            raise VersionConflict(f"resource group {group.name} was changed meanwhile") from error
        return Versioned(decode_group(group.name, data, stat.mzxid), stat.version)

    async def delete_group(self, name: str) -> None:
        """Delete a group, whether its definition can be read or not.

        Raises:
            NotFound: there is no such group.
            InUse: something is attached to it.
            StoreUnreachable: ZooKeeper did not answer; the group may be gone or not.
        """
        path = self._group_path(name)
        try:
            await self._session.call(lambda client: client.delete_async(path))
        except NoNodeError as error:
            raise NotFound(f"there is no resource group {name}") from error
        except NotEmptyError as error:
            raise InUse(f"resource group {name} is in use") from error

    async def attach_tenant(self, tenant: str, group: str) -> None:
        """Attach a tenant; see `AttachmentWriter.attach`."""
        await self._attachments.attach(Owner(tenant), validate_name(group))

    async def attach_namespace(self, tenant: str, namespace: str, group: str) -> None:
        """Attach a namespace; see `AttachmentWriter.attach`."""
        await self._attachments.attach(Owner(tenant, namespace), validate_name(group))

    async def detach_tenant(self, tenant: str) -> None:
        """Detach a tenant; see `AttachmentWriter.detach`."""
        await self._attachments.detach(Owner(tenant))

    async def detach_namespace(self, tenant: str, namespace: str) -> None:
        """Detach a namespace; see `AttachmentWriter.detach`."""
        await self._attachments.detach(Owner(tenant, namespace))

    def _group_path(self, name: str) -> str:
        return f"{self._groups_path}/{validate_name(name)}"

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
        group = None if node is None else decode_attachment(node.data)
        if directory == self._tenants_path:
            _put(self._tenants, name, group)
        else:
            tenant = directory.rpartition("/")[2]
            _put(self._namespaces, f"{tenant}/{name}", group)

    def _note_fault(self, path: str, reason: str) -> None:
        if self._faults.get(path) != reason:
            self._faults[path] = reason
            self._faults_seen += 1
            _log.error("store_entry_unreadable", path=path, reason=reason)

    def _tell(self) -> None:
        self._catalogue = Catalogue(
            groups=dict(self._groups),
            attachments=Attachments(dict(self._tenants), dict(self._namespaces)),
            faults=dict(self._faults),
        )
        for listener in tuple(self._listeners):
            listener(self._catalogue)


def _versioned(name: str, node: Node) -> Versioned:
    return Versioned(decode_group(name, node.data, node.modified_zxid), node.version)


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
