"""The ports of the sidecar that the admin API needs.

They answer differently. The *store* and the *broker* are asked over the network: they may refuse or not
answer at all. The *gate* is in another process and answers soon, unless clients keep it busy: a late
answer is waited for, and a sidecar whose gate is gone ends. The *views* are the coordinator's own memory:
they answer at once and never fail, but may be older than the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from admin_api.changes.echo import Echo
from admin_api.coordinator_loop import CoordinatorLoop
from admin_api.requests.access import Access
from admin_api.requests.refusals import RefusalCounts
from coordinator.backlog.shell.checker import BacklogWatch
from coordinator.backlog.shell.enforcer import BacklogEnforcement
from coordinator.core.certificate.statement import Certificate
from coordinator.core.events import ConnectionState
from coordinator.core.model import Dimension, ResourceGroup
from coordinator.insight.model.board import Board
from coordinator.insight.model.conditions import Conditions
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.event_log import EventLog
from coordinator.insight.model.gate_views import (
    ConnectionFigures,
    GateFigures,
    GateLimits,
    GateSlowness,
    HoldView,
    RoleView,
    UnknownTopicsView,
)
from coordinator.insight.model.operations import Holdings, Operation
from coordinator.insight.model.outside import RecordedOperation
from coordinator.insight.model.preview import DimensionPreview
from coordinator.insight.model.reconciliation_views import ReconciliationView
from coordinator.insight.model.seconds import MinuteView
from coordinator.insight.model.trees import TreeView
from coordinator.insight.model.views import Explanation, GroupView, HealthView, StoryView
from coordinator.insight.shell.partition_meter import PartitionMeter
from coordinator.insight.shell.totals import TrafficTotals
from coordinator.native.engine.views import NativeState
from coordinator.ports import (
    BrokerAdmin,
    BrokerRelay,
    BusHealth,
    Catalogue,
    GroupStore,
    RecorderHealth,
    TopicLimits,
    TopicLimitStore,
)
from coordinator.reconciliation.engine.reconciliation import Reconciliation


class Views(Protocol):
    """The present state of this sidecar; called on its own loop."""

    def health(self) -> HealthView:
        """Return the health of this sidecar, and the members that it knows."""
        ...

    def group_view(self, group: str) -> GroupView:
        """Return a group with its participating brokers.

        Raises:
            UnknownGroup: there is no such group (from coordinator.insight.model.explain, as the next
                ones).
        """
        ...

    def explain(self, group: str, dimension: Dimension, broker: str | None) -> Explanation:
        """Return the reasons for a broker's local limit; no broker means this sidecar's own.

        Raises:
            UnknownGroup: there is no such group, or no decision on it yet.
            UnknownBroker: there is no such member.
        """
        ...

    def would_change(self, group: str, dimension: Dimension, broker: str | None) -> tuple[str, ...]:
        """Return changes that would give a limited broker another limit, with exact numbers."""
        ...

    def certificates(self, group: str) -> tuple[Certificate, ...]:
        """Return the most that a group's local limits can add up to now, by limited dimension.

        Raises:
            UnknownGroup: there is no such group.
        """
        ...

    def roots(self) -> tuple[str, ...]:
        """Return the names of the roots of all trees of groups, sorted."""
        ...

    def tree(self, group: str, dimension: Dimension) -> TreeView | None:
        """Return the tree that a group belongs to; None if it belongs to none."""
        ...

    def catalogue(self) -> Catalogue:
        """Return the last copy of the store that arrived here."""
        ...

    def defined(self) -> Collection[str]:
        """Return the names of all groups, and of all scalable topics with limits."""
        ...

    def recording(self) -> RecorderHealth | None:
        """Return the state of recording; None when nothing is recorded."""
        ...

    def connection(self) -> ConnectionState | None:
        """Return the state of the connection to ZooKeeper; None before the first."""
        ...

    def totals(self) -> TrafficTotals:
        """Return the own gate's counts since the start."""
        ...

    def minute(self, group: str, dimension: Dimension) -> MinuteView | None:
        """Return the gate's counts of the last minute, by the second; None before there are any."""
        ...

    def throttled_seconds(self, group: str, dimension: Dimension) -> int:
        """Return the seconds since the start in which clients waited at this limit."""
        ...


class ClusterHistory(Protocol):
    """Recent observations of the whole cluster (coordinator.insight.shell.sampler.Sampler)."""

    @property
    def board(self) -> Board:
        """Every group at a glance, and its recent past."""
        ...

    @property
    def events(self) -> EventLog:
        """The events that this sidecar handled, with what was decided of them."""
        ...

    @property
    def conditions(self) -> Conditions:
        """The conditions that held when all groups had been sampled last."""
        ...

    @property
    def period_s(self) -> float:
        """Seconds between two samples of a group."""
        ...

    def now_ns(self) -> int:
        """Return the time from which ages count."""
        ...

    def age_s(self) -> float:
        """Return the seconds since all groups were sampled."""
        ...

    def story(self, group: str, until_ns: int) -> StoryView:
        """Return the events that concern a group, and the decisions of this sidecar on them."""
        ...

    def preview(self, changed: ResourceGroup) -> tuple[DimensionPreview, ...]:
        """Return the effect of a changed definition of a group."""
        ...


class OperationLog(Protocol):
    """Changes under way (coordinator.app.operation_tracker.OperationTracker)."""

    def holdings(self, group: str) -> Holdings:
        """Return every participant's holdings of a group: to be called before the change."""
        ...

    async def accept(self, operation: Operation) -> Operation | None:
        """Record and follow a change that was made; None when it cannot be recorded."""
        ...

    async def operations(self, limit: int) -> list[RecordedOperation]:
        """Return the newest operations, newest first; raise StoreUnreachable."""
        ...


class LogControl(Protocol):
    """The level of the log (coordinator.runtime.logs.LogLevel)."""

    @property
    def name(self) -> str:
        """The present level: debug, info, warning or error."""
        ...

    def set(self, name: str) -> None:
        """Log from this level on."""
        ...


class GateMeter(Protocol):
    """The gate's reports about itself."""

    def slowness(self) -> GateSlowness:
        """Return how often and for how long its answers were late; answered by the coordinator."""
        ...

    async def figures(self) -> GateFigures:
        """Return the gate's figures at this moment."""
        ...

    async def limits(self) -> GateLimits:
        """Return its own limits in force, beside those of groups."""
        ...

    async def holds(self) -> Iterable[HoldView]:
        """Return the hold times of every limit and class that held something."""
        ...

    async def delayed(self) -> DelayedView | None:
        """Return the counts of delayed messages; None while they are not counted apart."""
        ...

    async def unknown_topics(self) -> UnknownTopicsView:
        """Return the counts of topics whose names the gate does not know."""
        ...

    async def role_traffic(self) -> tuple[RoleView, ...]:
        """Return the counts of each role; empty while no role is attached."""
        ...

    async def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Return the figures of every connection, the one that holds most first."""
        ...


class NativeMeter(Protocol):
    """Native enforcement's reports about itself."""

    def state(self) -> NativeState:
        """Return its present state."""
        ...


class Reconciling(Protocol):
    """Reconciliation's reports of escaped traffic."""

    @property
    def accounts(self) -> Reconciliation:
        """The accounts of escaped traffic."""
        ...

    def view(self) -> ReconciliationView:
        """Return its present state."""
        ...


class BusMeter(Protocol):
    """The report bus's reports about itself."""

    def health(self) -> BusHealth:
        """Return the state of the bus topics."""
        ...


@dataclass(frozen=True, slots=True)
class Backlogs:
    """The backlogs of the own broker's topics.

    Args:
        watch: knows the backlogs.
        enforcement: acts on quotas that are exceeded.
        by_topic: whether metrics have a series per topic.
    """

    watch: BacklogWatch
    enforcement: BacklogEnforcement
    by_topic: bool = True


@dataclass(frozen=True, slots=True)
class AdminBackend:
    """Everything that `create_app` needs. It lives on the coordinator's loop, except the relay.

    Without a relay nothing is passed to the broker; without ``backlogs`` and ``partitions`` these are
    unknown; without ``cluster_group`` the cluster has no specification, and without ``delayed_group``
    delayed messages have none; without ``native`` the broker's own limiter is left alone; without
    ``reconciling`` escaped traffic is unknown; without ``requests_per_second`` (of one client address)
    there is no bound on requests. Without tokens the API answers to loopback and ``hosts`` alone
    (admin_api.requests.hosts). Lookups through the relay ask for ``gate_listener``; empty leaves that
    to the callers (admin_api.relay.lookups).
    """

    store: GroupStore
    topic_limits: TopicLimitStore
    groups_seen: Echo[Catalogue]
    topics_seen: Echo[TopicLimits]
    broker: BrokerAdmin
    views: Views
    history: ClusterHistory
    operation_log: OperationLog
    gate: GateMeter
    bus: BusMeter
    log_level: LogControl
    access: Access = field(default_factory=Access)
    coordinator_loop: CoordinatorLoop = field(default_factory=CoordinatorLoop)
    relay: BrokerRelay | None = None
    backlogs: Backlogs | None = None
    partitions: PartitionMeter | None = None
    cluster_group: str = ""
    delayed_group: str = ""
    native: NativeMeter | None = None
    reconciling: Reconciling | None = None
    enforcement_path: str = "gate"
    proves_roles: bool = True
    requests_per_second: int | None = None
    hosts: tuple[str, ...] = ()
    gate_listener: str = "external"
    refusals: RefusalCounts = field(default_factory=RefusalCounts)

    def native_state(self) -> NativeState | None:
        """Return the state of native enforcement; None where the broker's limiter is left alone."""
        return None if self.native is None else self.native.state()
