"""Read and write group definitions in ZooKeeper, so that no writer overwrites an unseen change.

A definition's version is its node's mzxid, the number of the transaction that wrote it. ZooKeeper itself
can only compare a node's own version, which starts again when a group is deleted and created anew: a
writer that read the old group could then overwrite the new one. Therefore every deletion also rewrites
the (empty) content of the ``groups`` node, whose version so counts deletions, and every write is one
transaction that checks both: *no group was deleted since the read* and *the node is unchanged since the
read*. A deletion of another group in between costs one more try.

A group with a parent has its *place* there: an empty child of the parent's node,
``groups/<parent>/,<group>``, written and removed with the definition. So ZooKeeper refuses to create a
group without its parent, and to delete a parent before its children, as with the uses of attachments
(attachments.py); a comma begins no use. A release that knows no trees deletes a group and leaves its
place behind: the deletion of the parent removes places without a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kazoo.client import TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from coordinator.adapters.zookeeper.audit import ZooKeeperAudit
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.core.model import ResourceGroup
from coordinator.ports import (
    AlreadyExists,
    InUse,
    NotFound,
    Origin,
    Unreadable,
    VersionConflict,
    Versioned,
)
from coordinator.wire.documents import DocumentError, decode_group, encode_group, validate_name

#: How often other writers may win a race; each lost race is a change of another writer.
_MAX_TRIES = 64

_PLACE = ","
"""Begins the name of a place; a name of a tenant, and so a use, begins otherwise."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A group's node as it was read; ``deletions`` is the version of the ``groups`` node before that."""

    data: bytes
    node_version: int
    mzxid: int
    deletions: int


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of one group that a change of its definition concerns."""

    remove: str | None
    keep: str | None
    #: Whether the place to keep exists.
    there: bool

    def write(self, transaction: TransactionRequest) -> None:
        """Add them to a transaction."""
        if self.remove is not None:
            transaction.delete(self.remove)
        if self.keep is not None and self.there:
            transaction.check(self.keep, -1)
        elif self.keep is not None:
            transaction.create(self.keep)


class DefinitionWriter:
    """Reads and writes definitions, by the protocol above."""

    def __init__(self, session: ZooKeeperSession, audit: ZooKeeperAudit) -> None:
        self._session = session
        self._audit = audit
        self._directory = session.path("groups")

    async def read(self, name: str) -> Versioned:
        """Read one group from ZooKeeper itself; raises NotFound, Unreadable, StoreUnreachable."""
        path = self._path(name)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
            return _versioned(name, data, stat.mzxid)
        except NoNodeError as error:
            raise _not_found(name) from error
        except DocumentError as error:
            raise Unreadable(f"resource group {name}: {error}") from error

    async def create(self, group: ResourceGroup, by: Origin) -> Versioned:
        """Create a group; raises AlreadyExists, NotFound for its parent, StoreUnreachable."""
        path, data = self._path(group.name), encode_group(group)
        places = await self._places(None, group)

        def write(transaction: TransactionRequest) -> None:
            transaction.create(path, data)
            # Only a change of content answers with the transaction's number, and that is the version.
            transaction.set_data(path, data, 0)
            places.write(transaction)
            self._audit.record(transaction, f"groups/{group.name}", None, group, by)

        await self._session.call(lambda client: client.ensure_path_async(self._directory))
        await self._audit.prepare()
        try:
            results = await self._session.transact(write)
        except NodeExistsError as error:
            raise AlreadyExists(f"there is a resource group {group.name} already") from error
        except NoNodeError as error:
            raise _not_found(group.parent) from error
        await self._audit.recorded(results)
        return _versioned(group.name, data, results[1].mzxid)

    async def update(self, group: ResourceGroup, version: int, by: Origin) -> Versioned:
        """Replace a definition; raises NotFound, VersionConflict, Unreadable, StoreUnreachable."""
        path, data = self._path(group.name), encode_group(group)
        await self._audit.prepare()
        for _ in range(_MAX_TRIES):
            found = await self._find(group.name)
            if found.mzxid != version:
                raise _conflict(group.name)
            results = await self._try_update(path, data, group, found, by)
            if results is not None:
                await self._audit.recorded(results)
                return _versioned(group.name, data, results[1].mzxid)
        raise _conflict(group.name)

    async def delete(self, name: str, version: int | None, by: Origin) -> None:
        """Delete a group, readable or not; raises NotFound, InUse, VersionConflict, StoreUnreachable."""
        path = self._path(name)
        await self._audit.prepare()
        for _ in range(_MAX_TRIES):
            found = await self._find(name)
            if version is not None and found.mzxid != version:
                raise _conflict(name)
            results = await self._try_delete(path, name, found, by)
            if results is not None:
                await self._audit.recorded(results)
                return
        raise _conflict(name)

    async def _try_update(
        self, path: str, data: bytes, group: ResourceGroup, found: _Found, by: Origin
    ) -> list[Any] | None:
        before = _readable(group.name, found)
        if group.parent:
            await self._find(group.parent)
        places = await self._places(before, group)

        def write(transaction: TransactionRequest) -> None:
            transaction.check(self._directory, found.deletions)
            transaction.set_data(path, data, found.node_version)
            places.write(transaction)
            self._audit.record(transaction, f"groups/{group.name}", before, group, by)

        try:
            return await self._session.transact(write)
        except (BadVersionError, NoNodeError, NodeExistsError):
            return None

    async def _try_delete(
        self, path: str, name: str, found: _Found, by: Origin
    ) -> list[Any] | None:
        before = _readable(name, found)
        places = await self._places(before, None)
        lost = await self._lost_places(name)

        def write(transaction: TransactionRequest) -> None:
            transaction.set_data(self._directory, b"", found.deletions)
            for place in lost:
                transaction.delete(place)
            places.write(transaction)
            transaction.delete(path, found.node_version)
            self._audit.record(transaction, f"groups/{name}", before, None, by)

        try:
            return await self._session.transact(write)
        except (BadVersionError, NoNodeError):
            return None
        except NotEmptyError as error:
            raise InUse(f"resource group {name} is in use") from error

    async def _places(self, before: ResourceGroup | None, after: ResourceGroup | None) -> _Places:
        """Return the places that a change of a definition writes and removes."""
        old = None if before is None else self._place(before)
        new = None if after is None else self._place(after)
        there = new is not None and await self._exists(new)
        remove = old if old != new and old is not None and await self._exists(old) else None
        return _Places(remove, new, there=there)

    async def _lost_places(self, name: str) -> list[str]:
        """Return the places below a group of children that are no groups, or not of this parent."""
        path = self._path(name)
        try:
            below = await self._session.call(lambda client: client.get_children_async(path))
        except NoNodeError:
            return []
        lost = []
        for child in sorted(each for each in below if each.startswith(_PLACE)):
            try:
                if (await self.read(child.removeprefix(_PLACE))).group.parent == name:
                    continue
            except NotFound:
                pass
            except Unreadable:
                continue
            lost.append(f"{path}/{child}")
        return lost

    async def _exists(self, path: str) -> bool:
        return await self._session.call(lambda client: client.exists_async(path)) is not None

    def _place(self, group: ResourceGroup) -> str | None:
        if not group.parent:
            return None
        return f"{self._path(group.parent)}/{_PLACE}{validate_name(group.name)}"

    async def _find(self, name: str) -> _Found:
        """Return the node and, from before it was read, the number of deletions."""
        path = self._path(name)
        try:
            # In this order: a deletion after the first answer makes the transaction fail.
            _, parent = await self._session.call(lambda client: client.get_async(self._directory))
            data, stat = await self._session.call(lambda client: client.get_async(path))
        except NoNodeError as error:
            raise _not_found(name) from error
        return _Found(data, stat.version, stat.mzxid, parent.version)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{validate_name(name)}"


def _versioned(name: str, data: bytes, mzxid: int) -> Versioned:
    return Versioned(decode_group(name, data, mzxid), mzxid)


def _readable(name: str, found: _Found) -> ResourceGroup | None:
    try:
        return decode_group(name, found.data, found.mzxid)
    except DocumentError:
        return None


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no resource group {name}")


def _conflict(name: str) -> VersionConflict:
    return VersionConflict(f"resource group {name} was changed meanwhile")
