"""The handling of a group's traffic below and above its local limit: credit, and refusals.

*Credit* (``burstSeconds``): what a group leaves unused is saved up, up to that many seconds of its limit,
and may pass at once later. A broker saves up by its local limit, and gives up what is too much whenever
that falls. So with limits that add up to at most C, all credit together is at most burstSeconds * C at
any moment, and in any T seconds all brokers together let no more pass than C * T and that.

*Refusals* (``onLimit``): a publish above the limit waits, with backpressure, until it may pass
(``hold``), or it waits for ``holdMillis`` and fails then (``refuse``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.core.model import (
    NANOS_PER_MILLI,
    NANOS_PER_SECOND,
    Dimension,
    MonitoringClass,
    ResourceGroup,
)

HOLD, REFUSE = "hold", "refuse"
ON_LIMIT: Final = (HOLD, REFUSE)
"""The ways to handle publishes above a limit, by the name that ``onLimit`` uses."""

MAX_HOLD_MILLIS: Final = 600_000
"""The longest time for which a publish is held before it is refused."""

SEND_TIMEOUT_MILLIS: Final = 30_000
"""The send timeout of stock clients that set none; their publishes fail by themselves after it."""

MAX_BURST_SECONDS: Final = 3_600
"""The most credit that a group may save up, as time at its limit."""


@dataclass(frozen=True, slots=True)
class Handling:
    """A gate's way to handle traffic below and above a group's local limit.

    Args:
        burst_ns: how much credit is saved up, as time at the local limit; 0 is what the gate saves up of
            any limit.
        refuse_after_ns: how long a publish is held before the gate refuses it; None is until it passes.
    """

    burst_ns: int = 0
    refuse_after_ns: int | None = None


DEFAULT_HANDLING: Final = Handling()
"""That of a group that says nothing of it."""


def handling_of(group: ResourceGroup) -> Handling:
    """Return how a gate handles a group's traffic."""
    refuses = group.on_limit == REFUSE
    return Handling(
        group.burst_seconds * NANOS_PER_SECOND,
        group.hold_millis * NANOS_PER_MILLI if refuses else None,
    )


def refuses(group: ResourceGroup, dimension: Dimension) -> bool:
    """Return whether a gate refuses what is above a group's limit in this dimension."""
    publishes = dimension.monitoring_class is MonitoringClass.PUBLISH
    return group.on_limit == REFUSE and publishes


def burst_ns_of(group: ResourceGroup, default_ns: int) -> int:
    """Return how much is saved up of a group's limit, as time at it.

    Args:
        group: the group.
        default_ns: what a gate saves up of any limit.
    """
    return group.burst_seconds * NANOS_PER_SECOND or default_ns


def hold_warning(hold_millis: int) -> str:
    """Return what is wrong with this hold time for clients that keep their defaults; empty if nothing.

    A client's send timeout is its own, so a gate does not know it.
    """
    if hold_millis < SEND_TIMEOUT_MILLIS:
        return ""
    return (
        f"clients whose send timeout ({SEND_TIMEOUT_MILLIS:,} ms by default) is shorter than holdMillis "
        "give up before they are refused"
    )
