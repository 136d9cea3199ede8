"""Read and write group definitions in ZooKeeper, by compare-and-set (`versioned`).

A group with a parent has its *place* there: an empty child of the parent's node,
``groups/<parent>/,<group>``, written and removed with the definition. So ZooKeeper refuses to create a
group without its parent, and to delete a parent before its children, as with the uses of attachments
(attachments.py); a comma begins no use. The shell of ZooKeeper can delete a group and leave its place
behind: the deletion of the parent removes places without a group.
"""

from __future__ import annotations

from dataclasses import dataclass

from kazoo.client import TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.versioned import AuditedChange, Found, VersionedNodes
from coordinator.core.model import ResourceGroup
from coordinator.ports import (
    ANONYMOUS,
    AlreadyExists,
    InUse,
    NotFound,
    Origin,
    Unreadable,
    VersionConflict,
    Versioned,
)
from coordinator.wire.documents import DocumentError, decode_group, encode_group, validate_name

_PLACE = ","
"""Begins the name of a place; a name of a tenant, and so a use, begins otherwise."""


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
    """Reads and writes definitions, with their places."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._nodes = VersionedNodes(session)
        self._directory = session.path("groups")

    async def read(self, name: str) -> Versioned:
        """Read one group from ZooKeeper itself; raises NotFound, Unreadable, StoreUnreachable."""
        try:
            return _versioned(name, *await self._nodes.read(self._path(name)))
        except NoNodeError as error:
            raise _not_found(name) from error
        except DocumentError as error:
            raise Unreadable(f"resource group {name}: {error}") from error

    async def create(self, group: ResourceGroup, *, by: Origin = ANONYMOUS) -> Versioned:
        """Create a group; raises AlreadyExists, NotFound for its parent, StoreUnreachable."""
        path, data = self._path(group.name), encode_group(group)
        places = await self._places(None, group)
        change = AuditedChange(None, group, by, places.write)
        try:
            version = await self._nodes.create(path, _subject(group.name), data, change)
        except NodeExistsError as error:
            raise AlreadyExists(f"there is a resource group {group.name} already") from error
        except NoNodeError as error:
            raise _not_found(group.parent) from error
        return _versioned(group.name, data, version)

    async def update(
        self, group: ResourceGroup, version: int, *, by: Origin = ANONYMOUS
    ) -> Versioned:
        """Replace a definition; raises NotFound, VersionConflict, Unreadable, StoreUnreachable."""
        name, data = group.name, encode_group(group)

        async def change(found: Found) -> AuditedChange:
            before = _readable(name, found)
            if group.parent and not await self._exists(self._path(group.parent)):
                raise _not_found(group.parent)
            places = await self._places(before, group)
            return AuditedChange(before, group, by, places.write)

        try:
            new = await self._nodes.replace(self._path(name), _subject(name), data, version, change)
        except NoNodeError as error:
            raise _not_found(name) from error
        except BadVersionError as error:
            raise _conflict(name) from error
        return _versioned(name, data, new)

    async def delete(
        self, name: str, *, version: int | None = None, by: Origin = ANONYMOUS
    ) -> None:
        """Delete a group, readable or not; raises NotFound, InUse, VersionConflict, StoreUnreachable."""

        async def change(found: Found) -> AuditedChange:
            before = _readable(name, found)
            places = await self._places(before, None)
            lost = await self._lost_places(name)

            def also(transaction: TransactionRequest) -> None:
                for place in lost:
                    transaction.delete(place)
                places.write(transaction)

            return AuditedChange(before, None, by, also)

        try:
            await self._nodes.remove(self._path(name), _subject(name), version, change)
        except NoNodeError as error:
            raise _not_found(name) from error
        except NotEmptyError as error:
            raise InUse(f"resource group {name} is in use") from error
        except BadVersionError as error:
            raise _conflict(name) from error

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

    def _path(self, name: str) -> str:
        return f"{self._directory}/{validate_name(name)}"


def _subject(name: str) -> str:
    return f"groups/{name}"


def _versioned(name: str, data: bytes, version: int) -> Versioned:
    return Versioned(decode_group(name, data, version), version)


def _readable(name: str, found: Found) -> ResourceGroup | None:
    try:
        return decode_group(name, found.data, found.version)
    except DocumentError:
        return None


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no resource group {name}")


def _conflict(name: str) -> VersionConflict:
    return VersionConflict(f"resource group {name} was changed meanwhile")
