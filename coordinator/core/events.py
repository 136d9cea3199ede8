"""Facts that happened outside: the only input of the core.

Adapters, gate and admin API never touch the state. They report events, and the runner hands these to
``CoordinatorState.handle``. Outcomes of instructions, failures too, come back as events.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coordinator.core.model import EscrowRecord, Member, MonitoringClass, ResourceGroup, UsageReport
from coordinator.core.traffic import Traffic


class ConnectionState(Enum):
    """The state of the connection to ZooKeeper, in kazoo's words."""

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
    """A majority of the store answered ConfirmSession.

    Args:
        asked_ns: of that instruction.
        connected_ns: when the connection that carried question and answer was asked for.
        timeout_ns: the session timeout that the store granted with that connection.
    """

    asked_ns: int
    connected_ns: int
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """The present membership; it includes this sidecar once it has joined."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class GroupsChanged:
    """All present group definitions."""

    groups: tuple[ResourceGroup, ...]


@dataclass(frozen=True, slots=True)
class EscrowChanged:
    """The present records of all strict groups."""

    records: tuple[EscrowRecord, ...]


@dataclass(frozen=True, slots=True)
class TrafficCounted:
    """The gate's counts since the last event; groups without traffic may be left out.

    It changes facts and nothing else: a Tick after it decides.
    """

    traffic: tuple[Traffic, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; sent when ``CoordinatorState.tick_due_ns`` is reached, after fresh counts.

    The only event that ends rounds, degradation and leases.
    """


@dataclass(frozen=True, slots=True)
class ParticipantsChanged:
    """The first participant of a group appeared at this broker, or its last one left."""

    group: str
    monitoring_class: MonitoringClass
    participants: int


@dataclass(frozen=True, slots=True)
class UsageReportReceived:
    """A usage report whose sender is verified arrived on the bus, the own ones included."""

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
    | EscrowChanged
    | TrafficCounted
    | Tick
    | ParticipantsChanged
    | UsageReportReceived
    | BrokerAvailabilityChanged
    | DrainRequested
    | DrainCompleted
)
