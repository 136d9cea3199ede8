"""Who is alive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.events import ConnectionState
from coordinator.core.model import Member


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a confirmed session is known to be.

    Args:
        connected_ns: when the connection that carried question and answer was asked for.
        timeout_ns: the session timeout that the store granted with that connection.
    """

    connected_ns: int
    timeout_ns: int


class Membership(Protocol):
    """Who is alive."""

    def watch_connection(self, listener: Callable[[ConnectionState], None]) -> None:
        """Call the listener with every change of the connection's state."""
        ...

    def watch_members(self, listener: Callable[[tuple[Member, ...]], None]) -> None:
        """Call the listener with all members, sorted by broker, now and after every change."""
        ...

    async def join(self, broker: str, api_address: str) -> int:
        """Register a broker until its session ends; return its incarnation.

        Joining again replaces the registration of this broker's earlier incarnation. A registration
        that the session lost is not renewed by itself: the core asks again.

        Raises:
            StoreUnreachable: the store did not answer.
        """
        ...

    async def leave(self) -> None:
        """Deregister at once; not registered is fine. Raises StoreUnreachable."""
        ...

    async def confirm(self) -> Confirmation:
        """Have a majority of the store confirm the session; what follows from it: core/lease.py.

        Raises:
            StoreUnreachable: the store did not answer, or not over the connection that asked.
        """
        ...
