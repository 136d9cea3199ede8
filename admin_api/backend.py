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
from coordinator.insight.model.delayed import DelayedView
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
from coordinator.insight.model.reconciliation_views import ReconciliationView
from coordinator.insight.shell.partition_meter import PartitionMeter
from coordinator.insight.shell.sampler import Sampler
from coordinator.insight.shell.views import SidecarViews
from coordinator.native.engine.views import NativeState
from coordinator.ports import (
    BrokerAdmin,
    BrokerRelay,
    Catalogue,
    GroupStore,
    ReportBus,
    TopicLimits,
    TopicLimitStore,
)
from coordinator.reconciliation.engine.reconciliation import Reconciliation
from coordinator.runtime.logs import LogLevel


class OperationLog(Protocol):
    """Changes under way (coordinator.app.operation_tracker.OperationTracker)."""

    def holdings(self, group: str) -> Holdings:
        """Return every participant's holdings of a group: to be called before the change."""

    async def accept(self, operation: Operation) -> Operation | None:
        """Record and follow a change that was made; None when it cannot be recorded."""

    async def operations(self, limit: int) -> list[RecordedOperation]:
        """Return the newest operations, newest first; raise StoreUnreachable."""


class GateMeter(Protocol):
    """The gate's reports about itself."""

    def slowness(self) -> GateSlowness:
        """Return how often and for how long its answers were late; answered by the coordinator."""

    async def figures(self) -> GateFigures:
        """Return the gate's figures at this moment."""

    async def limits(self) -> GateLimits:
        """Return its own limits in force, beside those of groups."""

    async def holds(self) -> Iterable[HoldView]:
        """Return the hold times of every limit and class that held something."""

    async def delayed(self) -> DelayedView | None:
        """Return the counts of delayed messages; None while they are not counted apart."""

    async def unknown_topics(self) -> UnknownTopicsView:
        """Return the counts of topics whose names the gate does not know."""

    async def role_traffic(self) -> tuple[RoleView, ...]:
        """Return the counts of each role; empty while no role is attached."""

    async def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Return the figures of every connection, the one that holds most first."""


class NativeMeter(Protocol):
    """Native enforcement's reports about itself."""

    def names(self, groups: Collection[str] | None = None) -> list[str]:
        """Return the native groups, or those that stand for any of these groups."""

    def state(self, names: Collection[str] | None = None) -> NativeState:
        """Return the present state, with these native groups or all."""


class Reconciling(Protocol):
    """Reconciliation's reports of escaped traffic."""

    @property
    def accounts(self) -> Reconciliation:
        """The accounts of escaped traffic."""

    def view(self) -> ReconciliationView:
        """Return its present state."""


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
    delayed messages have none; ``native`` is None where the broker's own limiter is left alone; without
    ``reconciling`` escaped traffic is unknown; without ``requests_per_second`` (of one client address)
    there is no bound on requests. Without tokens the API answers to loopback and ``hosts`` alone
    (admin_api.requests.hosts). Lookups through the relay ask for ``gate_listener``; empty leaves that to
    the callers (admin_api.relay.lookups).
    """

    store: GroupStore
    topic_limits: TopicLimitStore
    groups_seen: Echo[Catalogue]
    topics_seen: Echo[TopicLimits]
    broker: BrokerAdmin
    views: SidecarViews
    history: Sampler
    operation_log: OperationLog
    gate: GateMeter
    bus: ReportBus
    log_level: LogLevel
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

    def native_state(self, groups: Collection[str] | None = None) -> NativeState | None:
        """Return the state of native enforcement, of these groups or all; None where there is none."""
        return None if self.native is None else self.native.state(self.native.names(groups))
