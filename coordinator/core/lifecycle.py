"""The life of a sidecar: six states, one table, and the troubles that degrade it.

::

    STARTING --joined--> LEARNING --informed--> ACTIVE <--recovered/troubled--> DEGRADED
                            ^  |                  |                               |
                            |  +------------------+------- re-joined -------------+
                            +---------------------------------------------- re-joined
    any of them --drain--> DRAINING --drained--> STOPPED

A new incarnation always passes through LEARNING: it holds no more than its arrival reserve until every
member has told it what it uses and holds (doorman's learning mode), so a start never adds to what the
others already let through; one that is in trouble at once, and so DEGRADED, holds no more either.
What is not in the table is a mistake of ours: it raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Lifecycle(Enum):
    """Where a sidecar stands."""

    STARTING = "STARTING"
    LEARNING = "LEARNING"
    ACTIVE = "ACTIVE"
    DEGRADED = "DEGRADED"
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"


class Trigger(Enum):
    """What moves a sidecar from one state to another."""

    JOINED = "joined"
    INFORMED = "informed"
    TROUBLED = "troubled"
    RECOVERED = "recovered"
    DRAIN = "drain"
    DRAINED = "drained"


class Trouble(Enum):
    """Why a sidecar is DEGRADED; several can hold at once."""

    ZOOKEEPER_SUSPENDED = "ZooKeeper does not answer; the session may still be alive"
    ZOOKEEPER_LOST = "the ZooKeeper session may be over, and the others have this broker's share"
    BUS_SILENT = "no usage report arrives from at least one member"
    BROKER_DOWN = "the own broker does not answer"


TRANSITIONS: Mapping[tuple[Lifecycle, Trigger], Lifecycle] = {
    (Lifecycle.STARTING, Trigger.JOINED): Lifecycle.LEARNING,
    (Lifecycle.LEARNING, Trigger.JOINED): Lifecycle.LEARNING,
    (Lifecycle.LEARNING, Trigger.INFORMED): Lifecycle.ACTIVE,
    (Lifecycle.LEARNING, Trigger.TROUBLED): Lifecycle.DEGRADED,
    (Lifecycle.ACTIVE, Trigger.JOINED): Lifecycle.LEARNING,
    (Lifecycle.ACTIVE, Trigger.TROUBLED): Lifecycle.DEGRADED,
    (Lifecycle.DEGRADED, Trigger.JOINED): Lifecycle.LEARNING,
    (Lifecycle.DEGRADED, Trigger.RECOVERED): Lifecycle.ACTIVE,
    (Lifecycle.STARTING, Trigger.DRAIN): Lifecycle.DRAINING,
    (Lifecycle.LEARNING, Trigger.DRAIN): Lifecycle.DRAINING,
    (Lifecycle.ACTIVE, Trigger.DRAIN): Lifecycle.DRAINING,
    (Lifecycle.DEGRADED, Trigger.DRAIN): Lifecycle.DRAINING,
    (Lifecycle.DRAINING, Trigger.DRAINED): Lifecycle.STOPPED,
}


class IllegalTransition(Exception):
    """A trigger that the table does not know in this state: a mistake in the core itself."""


def next_state(state: Lifecycle, trigger: Trigger) -> Lifecycle:
    """The state that a trigger leads to.

    Raises:
        IllegalTransition: the table has no such row.
    """
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise IllegalTransition(f"{trigger.value} in state {state.value}") from None
