"""The sidecars that are alive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.events import ConnectionState
from coordinator.core.model import Member


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The facts known of a confirmed session.

    Args:
        connected_ns: when the connection that carried question and answer was asked for.
        timeout_ns: the session timeout that the store granted with that connection.
    """

    connected_ns: int
    timeout_ns: int


class Membership(Protocol):
    """The sidecars that are alive."""

    def watch_connection(self, listener: Callable[[ConnectionState], None]) -> None:
        """Call the listener with every change of the connection's state."""

    def watch_members(self, listener: Callable[[tuple[Member, ...]], None]) -> None:
        """Call the listener with all members, sorted by broker, now and after every change."""

    async def join(self, broker: str, api_address: str, report_key: bytes = b"") -> int:
        """Register a broker until its session ends; return its incarnation.

        The others see the address of its admin API, and the key to check its reports with.

        Joining again replaces the registration of this sidecar's earlier incarnation. A registration
        that the session lost is not renewed by itself: the core asks again.

        Raises:
            AlreadyExists: another sidecar of this broker is registered; the message names its address.
            StoreUnreachable: the store did not answer.
        """

    async def leave(self) -> None:
        """Deregister at once, if registered. Raises StoreUnreachable."""

    async def confirm(self) -> Confirmation:
        """Have a majority of the store confirm the session; what follows from it: core/escrow/lease.py.

        Raises:
            StoreUnreachable: the store did not answer, or not over the connection that asked.
        """
