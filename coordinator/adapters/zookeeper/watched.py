"""Records in ZooKeeper that a sidecar keeps a copy of, and hands to its listeners as one snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from coordinator.adapters.zookeeper.mirror import Node, ZooKeeperMirror
from coordinator.adapters.zookeeper.session import ZooKeeperSession

Snapshot = TypeVar("Snapshot")


class WatchedRecords(ABC, Generic[Snapshot]):
    """Records of one kind, copied by a mirror; its owner decodes them, one changed node at a time.

    Args:
        session: the process's session.
        name: of the records, under which failures of a listener are counted.
        directories: as `ZooKeeperMirror`.
        foreign: as there.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        name: str,
        directories: Mapping[str, int],
        *,
        foreign: bool = False,
    ) -> None:
        self._session = session
        self._name = name
        self._mirror = ZooKeeperMirror(
            session, directories, self._apply, self._tell, foreign=foreign
        )
        self._listeners: list[Callable[[Snapshot], None]] = []
        #: The snapshot last passed on; None until all records were read once.
        self._told: Snapshot | None = None

    async def start(self) -> None:
        """Begin to copy; returns at once, with ZooKeeper up or down."""
        self._mirror.start()

    async def stop(self) -> None:
        """End copying; no listener is called afterwards."""
        await self._mirror.stop()

    def watch(self, listener: Callable[[Snapshot], None]) -> None:
        """Call the listener with all records now and after every change.

        "Now" is as soon as they are known. Several changes at once are one call.
        """
        self._listeners.append(listener)
        if self._told is not None:
            listener(self._told)

    @abstractmethod
    def _apply(self, path: str, node: Node | None) -> None:
        """Take over a node that changed; None is one that is gone."""

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """Return all records; later changes must not change what is returned."""

    def _tell(self) -> None:
        self._told = self._snapshot()
        self._session.supervisor.tell(self._name, self._listeners, self._told)
