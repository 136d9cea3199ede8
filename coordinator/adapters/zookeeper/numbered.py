"""Nodes that ZooKeeper numbers in the order in which they are created: ``<prefix>0000000017``.

A node that is made for a tenant's admin begins with the tenant, ``shop,<prefix>0000000018``: so a trim
knows whose it is without reading it (coordinator.ports.shares).
"""

from __future__ import annotations

import asyncio

import structlog
from kazoo.exceptions import NoNodeError

from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.ports import surplus

TRIM_EVERY = 20
"""A trim is due once in this many numbers: in between, up to this many more nodes are kept."""

_log = structlog.get_logger(__name__)


class NumberedNodes:
    """The numbered nodes of one directory.

    Args:
        session: the session to use.
        directory: their path without the number; it need not exist.
        prefix: the part of the name before the number.
    """

    def __init__(self, session: ZooKeeperSession, directory: str, prefix: str) -> None:
        self._session = session
        self._directory = directory
        self._prefix = prefix

    def path(self, name: str) -> str:
        """Return a node's path."""
        return f"{self._directory}/{name}"

    def beginning(self, tenant: str) -> str:
        """Return the path of a tenant's new node without its number; empty is a super-user's."""
        return self.path(f"{tenant},{self._prefix}" if tenant else self._prefix)

    def name(self, number: int, tenant: str) -> str:
        """Return ZooKeeper's name of a tenant's node with a number."""
        return f"{self.beginning(tenant).rpartition('/')[2]}{number:010d}"

    def number(self, name: str) -> int:
        """Return the number of a node, given its name or path."""
        return int(name.rpartition(self._prefix)[2])

    async def names(self) -> list[str]:
        """Return all names, oldest first; raises StoreUnreachable."""
        try:
            names = await self._session.call(
                lambda client: client.get_children_async(self._directory)
            )
        except NoNodeError:
            return []
        return sorted(filter(self._is_numbered, names), key=self.number)

    async def kept(self, keep: int) -> list[str]:
        """Return the names that a trim leaves, oldest first; raises StoreUnreachable."""
        names = await self.names()
        for place in surplus([_tenant_of(name) for name in names], keep):
            del names[place]
        return names

    async def trim(self, keep: int) -> None:
        """Delete all but the newest; raises StoreUnreachable, the next trim takes what is left."""
        names = await self.names()
        dropped = surplus([_tenant_of(name) for name in names], keep)
        await asyncio.gather(*(self._delete(names[place]) for place in dropped))

    def _is_numbered(self, name: str) -> bool:
        return name.rpartition(self._prefix)[2].isdecimal()

    async def _delete(self, name: str) -> None:
        path = self.path(name)
        try:
            await self._session.call(lambda client: client.delete_async(path))
        except NoNodeError:
            _log.debug("numbered node gone already", path=path)


def _tenant_of(name: str) -> str:
    return name.partition(",")[0] if "," in name else ""
