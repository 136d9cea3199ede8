"""The gate in front of the broker, which is in another process than who tells and asks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from coordinator.core.handling import Handling
from coordinator.core.model import AnyRates, Attachments
from coordinator.core.traffic import Traffic

COLLECTED_EVERY_S: Final = 0.05
"""The time between two collections of the gate's counts: the delay of everything urgent in them."""

COLLECTED_QUIETLY_EVERY_S: Final = 0.5
"""The same, at most, while nothing passes and nothing else happens."""

COLLECTED_QUIETLY_OF_SESSION: Final = 0.15
"""The same as a part of the ZooKeeper session: a gate that hears nothing for longer stands still."""


class TrafficGate(Protocol):
    """The gate in front of the broker: it counts, and enforces local limits.

    It tells of participants that appear or leave through a listener. What it is told takes effect in
    order, and soon; `when_in_force` says when.
    """

    def set_limits(self, group: str, limits: AnyRates, *, leased: bool = False) -> None:
        """Enforce these local limits from now on; balances are kept.

        Of leased ones nothing passes any more when the lease is over.
        """

    def set_handling(self, group: str, handling: Handling) -> None:
        """Handle a group's traffic below and above its local limits in this way from now on."""

    def hold_lease(self, until_ns: int) -> None:
        """Leased limits hold until then; there is no lease before the first call."""

    def remove_limits(self, group: str) -> None:
        """Enforce nothing for this group any more."""

    def set_attachments(self, attachments: Attachments) -> None:
        """Count every topic against the groups of these attachments from now on."""

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call when all that was told so far is in force, in the order of these calls.

        It is called at once where that is so already, and never when the gate is lost before.
        """

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Call when something passes or waits again, soon after it does.

        That is once after every `collect` that had nothing to tell but who takes part.
        """

    async def collect(self) -> tuple[Traffic, ...]:
        """Return the traffic counted since the last call.

        Raises:
            GateGone: it cannot be asked any more.
        """

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new and return when what is under way is answered, or at the timeout."""
