"""Facts that happened in the world: the only way into the core.

Adapters, gate and admin API never touch the state; they report what happened, and the runner hands it
to ``CoordinatorState.handle``. Outcomes of instructions, failures too, come back as events.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coordinator.core.model import (
    LedgerRecord,
    Member,
    MonitoringClass,
    ResourceGroup,
    Traffic,
    UsageReport,
)


class ConnectionState(Enum):
    """The connection to ZooKeeper, in kazoo's words."""

    CONNECTED = "CONNECTED"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class ConnectionChanged:
    """The connection to ZooKeeper changed its state."""

    state: ConnectionState


@dataclass(frozen=True, slots=True)
class MembershipJoined:
    """This sidecar is registered under a new incarnation."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class SessionConfirmed:
    """A majority of the store answered what ConfirmSession asked for.

    Args:
        asked_ns: that instruction's.
        connected_ns: when the connection that carried the question and the answer was asked for.
        timeout_ns: the session timeout that the store granted with it.
    """

    asked_ns: int
    connected_ns: int
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """The membership as it is now, this sidecar included once it has joined."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class GroupsChanged:
    """All group definitions as they are now."""

    groups: tuple[ResourceGroup, ...]


@dataclass(frozen=True, slots=True)
class LedgersChanged:
    """The records of all strict groups as they are now."""

    records: tuple[LedgerRecord, ...]


@dataclass(frozen=True, slots=True)
class TrafficCounted:
    """What the gate counted since the last time; groups without news may be left out.

    Arrives several times a round, also when nothing was counted: this is how time passes in the core.
    """

    traffic: tuple[Traffic, ...]


@dataclass(frozen=True, slots=True)
class ParticipantsChanged:
    """The first participant of a group appeared at this broker, or its last one left."""

    group: str
    monitoring_class: MonitoringClass
    participants: int


@dataclass(frozen=True, slots=True)
class UsageReportReceived:
    """A usage report arrived on the bus, this sidecar's own ones included."""

    report: UsageReport


@dataclass(frozen=True, slots=True)
class BrokerAvailabilityChanged:
    """The own broker began or ceased to answer."""

    answering: bool


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The sidecar was told to stop."""


@dataclass(frozen=True, slots=True)
class DrainCompleted:
    """The gate has no traffic under way any more."""


Event = (
    ConnectionChanged
    | SessionConfirmed
    | MembershipJoined
    | MembersChanged
    | GroupsChanged
    | LedgersChanged
    | TrafficCounted
    | ParticipantsChanged
    | UsageReportReceived
    | BrokerAvailabilityChanged
    | DrainRequested
    | DrainCompleted
)
