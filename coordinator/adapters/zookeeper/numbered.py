"""Nodes that ZooKeeper numbers in the order in which they are created: ``<prefix>0000000017``."""

from __future__ import annotations

import asyncio

import structlog
from kazoo.exceptions import NoNodeError

from coordinator.adapters.zookeeper.session import ZooKeeperSession

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

    def name(self, number: int) -> str:
        """Return ZooKeeper's name of the node with a number."""
        return f"{self._prefix}{number:010d}"

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
        return sorted(name for name in names if name[len(self._prefix) :].isdecimal())

    async def trim(self, keep: int) -> None:
        """Delete all but the newest; raises StoreUnreachable, the next trim takes what is left."""
        names = await self.names()
        await asyncio.gather(*map(self._delete, names[:-keep]))

    async def _delete(self, name: str) -> None:
        path = self.path(name)
        try:
            await self._session.call(lambda client: client.delete_async(path))
        except NoNodeError:
            _log.debug("numbered node gone already", path=path)
