"""The life of a sidecar: six states, one transition table, and the reasons that degrade it.

::

    STARTING --joined--> LEARNING --informed--> ACTIVE <--recovered/degraded--> DEGRADED
                            ^  |                  |                               |
                            |  +------------------+------- re-joined -------------+
                            +---------------------------------------------- re-joined
    any of them --drain--> DRAINING --drained--> STOPPED

A new incarnation always passes through LEARNING: it holds no more than its arrival reserve until every
member has reported its usage and its limits (doorman's learning mode), so a start never adds to the rates
of the others. An incarnation that is degraded at once holds no more either. A transition that is not in
the table is a bug in the core: it raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Lifecycle(Enum):
    """The state of a sidecar."""

    STARTING = "STARTING"
    LEARNING = "LEARNING"
    ACTIVE = "ACTIVE"
    DEGRADED = "DEGRADED"
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"


class Trigger(Enum):
    """The cause of a transition."""

    JOINED = "joined"
    INFORMED = "informed"
    DEGRADED = "degraded"
    RECOVERED = "recovered"
    DRAIN = "drain"
    DRAINED = "drained"


class Degradation(Enum):
    """A reason why a sidecar is DEGRADED; several can hold at once."""

    ZOOKEEPER_SUSPENDED = "ZooKeeper does not answer; the session may still be alive"
    ZOOKEEPER_LOST = "the ZooKeeper session may be over, and the others have this broker's share"
    BUS_SILENT = "the bus is silent: no usage report arrives from at least one member"
    BROKER_DOWN = "the own broker does not answer"


TRANSITIONS: Mapping[tuple[Lifecycle, Trigger], Lifecycle] = {
    (Lifecycle.STARTING, Trigger.JOINED): Lifecycle.LEARNING,
    (Lifecycle.LEARNING, Trigger.JOINED): Lifecycle.LEARNING,
    (Lifecycle.LEARNING, Trigger.INFORMED): Lifecycle.ACTIVE,
    (Lifecycle.LEARNING, Trigger.DEGRADED): Lifecycle.DEGRADED,
    (Lifecycle.ACTIVE, Trigger.JOINED): Lifecycle.LEARNING,
    (Lifecycle.ACTIVE, Trigger.DEGRADED): Lifecycle.DEGRADED,
    (Lifecycle.DEGRADED, Trigger.JOINED): Lifecycle.LEARNING,
    (Lifecycle.DEGRADED, Trigger.RECOVERED): Lifecycle.ACTIVE,
    (Lifecycle.STARTING, Trigger.DRAIN): Lifecycle.DRAINING,
    (Lifecycle.LEARNING, Trigger.DRAIN): Lifecycle.DRAINING,
    (Lifecycle.ACTIVE, Trigger.DRAIN): Lifecycle.DRAINING,
    (Lifecycle.DEGRADED, Trigger.DRAIN): Lifecycle.DRAINING,
    (Lifecycle.DRAINING, Trigger.DRAINED): Lifecycle.STOPPED,
}


class IllegalTransition(Exception):
    """The table has no row for this trigger in this state: a bug in the core."""


def next_state(state: Lifecycle, trigger: Trigger) -> Lifecycle:
    """Return the state that a trigger leads to.

    Raises:
        IllegalTransition: the table has no such row.
    """
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise IllegalTransition(f"{trigger.value} in state {state.value}") from None
