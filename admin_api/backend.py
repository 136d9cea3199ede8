"""What the admin API needs of the sidecar around it.

They answer differently. The *store* and the *broker* are asked over the network: they may refuse or not
answer at all. The *gate* is in another process and answers soon: a sidecar whose gate does not ends by
it. The *views* are the coordinator's own memory: they answer at once and never fail, but may be older
than the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from admin_api.access import Access
from admin_api.home import Home
from coordinator.backlog import BacklogWatch
from coordinator.backlog_enforcement import BacklogEnforcement
from coordinator.core.alarms import Alarms
from coordinator.core.board import Board
from coordinator.core.certificate import Certificate
from coordinator.core.decision_history import DecisionHistory
from coordinator.core.delayed import DelayedView
from coordinator.core.events import ConnectionState
from coordinator.core.gate_views import ConnectionFigures, GateFigures, GateLimits, HoldView
from coordinator.core.journal import Journal
from coordinator.core.model import Dimension, ResourceGroup
from coordinator.core.operations import Holdings, Operation
from coordinator.core.preview import DimensionPreview
from coordinator.core.seconds import MinuteView
from coordinator.core.shadow import Comparison
from coordinator.core.views import Explanation, GroupView, HealthView
from coordinator.partition_meter import PartitionMeter
from coordinator.ports import (
    BrokerAdmin,
    BrokerRelay,
    BusHealth,
    Catalogue,
    GroupStore,
    RecordedOperation,
    RecorderHealth,
    TopicLimitStore,
)
from coordinator.totals import TrafficTotals


class Views(Protocol):
    """What this sidecar knows right now; called at home."""

    def health(self) -> HealthView:
        """How this sidecar is, and whom it knows."""
        ...

    def group_view(self, group: str) -> GroupView:
        """A group with the brokers that take part in it.

        Raises:
            UnknownGroup: there is no such group (from coordinator.core.explain, as the next ones).
        """
        ...

    def explain(self, group: str, dimension: Dimension, broker: str | None) -> Explanation:
        """Why a broker's local limit is what it is; no broker means this sidecar's own.

        Raises:
            UnknownGroup: there is no such group, or nothing was decided on it yet.
            UnknownBroker: there is no such member.
        """
        ...

    def would_change(self, group: str, dimension: Dimension, broker: str | None) -> tuple[str, ...]:
        """What would give a broker that is cut another limit, in words with exact numbers."""
        ...

    def shadow_law(self) -> str | None:
        """The law that every group's own is compared with; None when there is none."""
        ...

    def shadow(self, group: str, dimension: Dimension, law: str) -> Comparison | None:
        """What another law would make of a group's dimension; None where nothing is limited.

        Raises:
            UnknownGroup: there is no such group.
        """
        ...

    def certificates(self, group: str) -> tuple[Certificate, ...]:
        """The most that a group's local limits can add up to now, for each dimension it limits.

        Raises:
            UnknownGroup: there is no such group.
        """
        ...

    def catalogue(self) -> Catalogue:
        """The last copy of the store that arrived here."""
        ...

    def recording(self) -> RecorderHealth | None:
        """How recording goes; None when nothing is to be recorded."""
        ...

    def connection(self) -> ConnectionState | None:
        """The connection to ZooKeeper; None before the first."""
        ...

    def totals(self) -> TrafficTotals:
        """What the own gate has counted since the start."""
        ...

    def minute(self, group: str, dimension: Dimension) -> MinuteView | None:
        """What it has counted in the last minute, by the second; None before there was one."""
        ...

    def throttled_seconds(self, group: str, dimension: Dimension) -> int:
        """In how many seconds clients waited at it, since the start."""
        ...


class Watching(Protocol):
    """What this sidecar has seen of the whole cluster lately (coordinator.watch.Watch)."""

    @property
    def board(self) -> Board:
        """Every group at a glance, and its recent past."""
        ...

    @property
    def journal(self) -> Journal:
        """What happened."""
        ...

    @property
    def decisions(self) -> DecisionHistory:
        """What was decided on its own limits, and why."""
        ...

    @property
    def alarms(self) -> Alarms:
        """What somebody should know of."""
        ...

    @property
    def period_s(self) -> float:
        """Seconds from one look at a group to the next."""
        ...

    def now_ns(self) -> int:
        """The time that ages count from."""
        ...

    def age_s(self) -> float:
        """Seconds since all groups were looked at."""
        ...

    def preview(self, changed: ResourceGroup) -> tuple[DimensionPreview, ...]:
        """What would follow if a group were defined so."""
        ...


class Following(Protocol):
    """Changes on their way (coordinator.following.Following)."""

    def holdings(self, group: str) -> Holdings:
        """What every participant of a group holds now: to be asked before the change."""
        ...

    async def accept(self, operation: Operation) -> Operation | None:
        """Record and follow a change that was made; None when it cannot be recorded."""
        ...

    async def operations(self, limit: int) -> list[RecordedOperation]:
        """The newest operations, newest first; raises StoreUnreachable."""
        ...


class Telling(Protocol):
    """What became of messages to somebody outside: alarms (coordinator.alarming.Alarming) or metrics."""

    @property
    def delivered(self) -> int:
        """Messages that were taken."""
        ...

    @property
    def failed(self) -> int:
        """Attempts that failed."""
        ...


class LogControl(Protocol):
    """From where on something is logged (coordinator.logs.LogLevel)."""

    @property
    def name(self) -> str:
        """The present level: debug, info, warning or error."""
        ...

    def set(self, name: str) -> None:
        """Log from this level on."""
        ...


class GateMeter(Protocol):
    """What the gate says of itself."""

    async def figures(self) -> GateFigures:
        """The gate at this moment."""
        ...

    async def limits(self) -> GateLimits:
        """Its own limits in force, beside those of groups."""
        ...

    async def holds(self) -> Iterable[HoldView]:
        """What was held back, of every limit and class that held anything."""
        ...

    async def delayed(self) -> DelayedView | None:
        """What was published with a time of delivery; None while nobody looks."""
        ...

    async def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Every connection at this moment, the one that holds most first."""
        ...


class BusMeter(Protocol):
    """What the report bus says of itself."""

    def health(self) -> BusHealth:
        """How the bus topics are doing."""
        ...


@dataclass(frozen=True, slots=True)
class Backlogs:
    """What is known of the backlogs of the own broker's topics.

    Args:
        watch: knows them.
        enforcement: what is done about quotas that are exceeded.
        by_topic: whether metrics have a series per topic.
    """

    watch: BacklogWatch
    enforcement: BacklogEnforcement
    by_topic: bool = True


@dataclass(frozen=True, slots=True)
class AdminBackend:
    """Everything that `create_app` is given. All of it lives at ``home``, but for the relay.

    Without a relay nothing is passed to the broker; without ``alarming`` alarms, and without ``otlp``
    metrics, are sent nowhere; without ``backlogs`` and ``partitions`` nothing is known of these; without
    ``cluster_group`` nothing is specified for the cluster, and without ``delayed_group`` nothing for
    delayed messages; without ``requests_per_second`` (of one client address) there is no bound on
    requests.
    """

    store: GroupStore
    topic_limits: TopicLimitStore
    broker: BrokerAdmin
    views: Views
    watching: Watching
    following: Following
    gate: GateMeter
    bus: BusMeter
    log_level: LogControl
    alarming: Telling | None = None
    otlp: Telling | None = None
    access: Access = field(default_factory=Access)
    home: Home = field(default_factory=Home)
    relay: BrokerRelay | None = None
    backlogs: Backlogs | None = None
    partitions: PartitionMeter | None = None
    cluster_group: str = ""
    delayed_group: str = ""
    requests_per_second: int | None = None
