"""A sidecar's surroundings in memory, for tests of the admin API and of the command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from fastapi import APIRouter, FastAPI

from admin_api.app import create_app
from admin_api.backend import AdminBackend
from admin_api.changes.echo import Echo
from coordinator.adapters.broker.relay import HttpBrokerRelay
from coordinator.app.operation_tracker import OperationTracker
from coordinator.core.certificate.statement import Basis, Certificate, Holder
from coordinator.core.events import ConnectionState, Event, GroupsChanged
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import Dimension, LimitKey, Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.explain import UnknownBroker, UnknownGroup
from coordinator.insight.model.gate_views import (
    ConnectionFigures,
    GateFigures,
    GateLimits,
    GateSlowness,
    HoldView,
    RoleView,
    UnknownTopicsView,
)
from coordinator.insight.model.seconds import MinuteView
from coordinator.insight.model.trees import TreeView
from coordinator.insight.model.views import (
    BrokerUsageView,
    Explanation,
    GroupView,
    HealthView,
    MemberView,
    WantView,
)
from coordinator.insight.shell.sampler import Sampler
from coordinator.insight.shell.totals import TrafficTotals
from coordinator.insight.shell.views import SidecarViews
from coordinator.native.engine.views import NativeState
from coordinator.ports import Catalogue, RecorderHealth, Unreachable
from coordinator.runtime.logs import LogLevel
from tests.memory.operations import MemoryOperations
from tests.memory.store import MemoryStore
from tests.memory.surroundings import (
    ManualClock,
    MemoryBrokerAdmin,
    MemoryBus,
    MemoryTopic,
)
from tests.memory.topic_limits import MemoryTopicLimits

MILLI_NS = 1_000_000

HEALTHY = HealthView(
    broker="broker-1",
    incarnation=17,
    state=Lifecycle.ACTIVE,
    degradations=(),
    ready=True,
    members=(
        MemberView("broker-1", 17, "127.0.0.1:8087", 0),
        MemberView("broker-2", 19, "127.0.0.1:8088", 210 * MILLI_NS),
    ),
    round=812,
    reports_dropped={},
)


@dataclass
class FixedViews(SidecarViews):
    """Views that show what a test has put into it."""

    shown: Catalogue = field(default_factory=Catalogue)
    health_view: HealthView = HEALTHY
    rows: tuple[BrokerUsageView, ...] = ()
    undecided: set[str] = field(default_factory=set)
    counted: TrafficTotals = field(default_factory=TrafficTotals)
    minutes: dict[LimitKey, MinuteView] = field(default_factory=dict)
    explanations: dict[tuple[str, Dimension, str], Explanation] = field(default_factory=dict)
    certified: dict[str, tuple[Certificate, ...]] = field(default_factory=dict)
    planted: dict[LimitKey, TreeView] = field(default_factory=dict)
    recorded: RecorderHealth | None = None
    topic_groups: tuple[ResourceGroup, ...] = ()

    def health(self) -> HealthView:
        """Return the test's health."""
        return self.health_view

    def group_view(self, group: str) -> GroupView:
        """A group of the catalogue with the test's rows."""
        if group not in self.defined():
            raise UnknownGroup(group)
        topics = {each.name: each for each in self.topic_groups}
        g = topics.get(group) or self.shown.groups[group].group
        return GroupView(
            g.name, g.limits, g.law, g.overshoot_policy, g.configuration_version, self.rows
        )

    def explain(self, group: str, dimension: Dimension, broker: str | None) -> Explanation:
        """Return the test's explanation; the own broker is the health's."""
        if group not in self.defined() or group in self.undecided:
            raise UnknownGroup(group)
        subject = broker or self.health_view.broker
        try:
            return self.explanations[group, dimension, subject]
        except KeyError:
            raise UnknownBroker(subject) from None

    def would_change(self, group: str, dimension: Dimension, broker: str | None) -> tuple[str, ...]:
        """The same for each broker that is cut: broker-2."""
        subject = broker or self.health_view.broker
        cut = self.explanations[group, dimension, subject].binding == "level"
        return ("a higher limit", "less demand") if cut else ()

    def roots(self) -> tuple[str, ...]:
        """Return the roots of the test's trees."""
        return tuple(sorted({root for root, _ in self.planted}))

    def tree(self, group: str, dimension: Dimension) -> TreeView | None:
        """Return the test's tree of a root."""
        return self.planted.get((group, dimension))

    def certificates(self, group: str) -> tuple[Certificate, ...]:
        """Return the test's certificates."""
        if group not in self.shown.groups:
            raise UnknownGroup(group)
        return self.certified.get(group, ())

    def catalogue(self) -> Catalogue:
        """The last one that the store has sent."""
        return self.shown

    def defined(self) -> Collection[str]:
        """The groups of the catalogue, and the test's scalable topics."""
        return {*self.shown.groups, *(group.name for group in self.topic_groups)}

    def recording(self) -> RecorderHealth | None:
        """Return the test's state of recording."""
        return self.recorded

    def connection(self) -> ConnectionState:
        """Always connected."""
        return ConnectionState.CONNECTED

    def totals(self) -> TrafficTotals:
        """Return the test's counts."""
        return self.counted

    def minute(self, group: str, dimension: Dimension) -> MinuteView | None:
        """Return the test's minute."""
        return self.minutes.get((group, dimension))

    def throttled_seconds(self, group: str, dimension: Dimension) -> int:
        """As many as in the minute."""
        minute = self.minute(group, dimension)
        return 0 if minute is None else minute.throttled_seconds

    def show(self, catalogue: Catalogue) -> None:
        """Listen to the store."""
        self.shown = catalogue

    def turn(self, **changes: object) -> None:
        """Change fields of the health."""
        self.health_view = replace(self.health_view, **changes)  # type: ignore[arg-type]


CERTIFICATE = Certificate(
    "orders",
    Dimension.PUBLISH_MESSAGES,
    limit=3_000,
    most=3_000,
    newcomer=15,
    burst=152,
    holders=(
        Holder("broker-1", 1_000, Basis.OWN),
        Holder("broker-2", 2_000, Basis.ANNOUNCED),
    ),
)
"""The largest sum of all local limits of orders."""


FIGURES = GateFigures(
    connections=1,
    producers=2,
    consumers=3,
    waiting_producers=4,
    waiting_consumers=14,
    withheld_permits=15,
    held_frames=5,
    held_bytes=6,
    longest_hold_ns=18_000_000_000,
    throttles={"resource group": 16},
    refused_publishes=18,
    refused_subscribes=17,
    pauses=7,
    keep_alive_replies=8,
    dropped_frames=9,
    replicated_messages=10,
    replicated_bytes=11,
    upstream_failures=12,
    malformed_closes={"too long": 13},
    refusals={"name too long": 19},
    unknown_commands={99: 20},
    closes={"too many connections": 14},
)
"""A gate's figures, each another number."""

CONNECTION = ConnectionFigures(
    peer="10.1.2.3:4567",
    role="alice",
    producers=1,
    consumers=2,
    held_frames=3,
    held_bytes=4,
    unanswered=5,
    withheld_permits=6,
    throttles={"topic limit": 7},
    paused_for=("held bytes",),
)


@dataclass
class FixedGate:
    """A gate that stands still and shows what a test has put into it."""

    held: tuple[HoldView, ...] = ()
    own_limits: GateLimits = field(default_factory=lambda: GateLimits(Rates(), None, 30, ()))
    connected: tuple[ConnectionFigures, ...] = (CONNECTION,)
    counted_apart: DelayedView | None = None
    unknown: UnknownTopicsView = field(default_factory=UnknownTopicsView)
    roles: tuple[RoleView, ...] = ()
    failure: Unreachable | None = None
    slow: GateSlowness = field(default_factory=GateSlowness)

    async def figures(self) -> GateFigures:
        """Always the same."""
        return FIGURES

    def slowness(self) -> GateSlowness:
        """Return the test's slowness."""
        return self.slow

    async def limits(self) -> GateLimits:
        """Return the test's limits."""
        return self.own_limits

    async def holds(self) -> tuple[HoldView, ...]:
        """Return the test's holds."""
        return self.held

    async def unknown_topics(self) -> UnknownTopicsView:
        """Return the test's unknown topics."""
        return self.unknown

    async def delayed(self) -> DelayedView | None:
        """Return the test's delayed messages."""
        return self.counted_apart

    async def role_traffic(self) -> tuple[RoleView, ...]:
        """Return the test's roles."""
        return self.roles

    async def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Return the test's connections, or fail as the test says."""
        if self.failure is not None:
            raise self.failure
        return self.connected


class FixedLogLevel(LogLevel):
    """A level that nothing is logged by."""

    def __init__(self) -> None:
        super().__init__("info")

    def set(self, name: str) -> None:
        """Remember it."""
        self._name = name


_routers: dict[bool, APIRouter] = {}
"""The routes with a monitor of backlogs and without one, ready for requests."""


def app_of(backend: AdminBackend) -> FastAPI:
    """Build the app of a backend on routes that are ready.

    FastAPI readies every route at an app's first request, in 200 ms. Routes find the backend by the app
    that a request came to, so all apps that have the same paths share their routes.
    """
    app = create_app(backend)
    app.router = _routers.setdefault(backend.backlogs is not None, app.router)
    return app


class World:
    """Store, broker and views of one sidecar, and the app that stands on them."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.topic_limits = MemoryTopicLimits(self.store)
        self.gate = FixedGate()
        self.broker = MemoryBrokerAdmin()
        self.broker.tenants = {"public"}
        self.broker.namespaces = {"public/default", "public/other"}
        self.views = FixedViews()
        self.store.watch(self.views.show)
        #: A core that hears of this store's groups, and of whatever a test tells it.
        self.core = CoordinatorState(CoreSettings(broker="broker-1"))
        self.clock = ManualClock()
        self.watch = Sampler(self.core, self.clock)
        self.store.watch(self._groups_changed)
        self.log_level = FixedLogLevel()
        self.operations = MemoryOperations()
        self.following = OperationTracker(self.core, self.clock, self.operations)
        self.backend = AdminBackend(
            store=self.store,
            topic_limits=self.topic_limits,
            groups_seen=Echo(self.store.watch),
            topics_seen=Echo(self.topic_limits.watch),
            broker=self.broker,
            views=self.views,
            history=self.watch,
            operation_log=self.following,
            gate=self.gate,
            bus=MemoryBus(MemoryTopic()),
            log_level=self.log_level,
            hosts=("sidecar", "testserver"),
        )
        self.app = app_of(self.backend)

    def handle(self, event: Event) -> None:
        """Give the core an event, and tell its observers."""
        self.core.handle(event, self.clock.now_ns())
        self.watch.handled(event)

    def _groups_changed(self, catalogue: Catalogue) -> None:
        self.handle(GroupsChanged(tuple(entry.group for entry in catalogue.groups.values())))

    def client(self, token: str | None = None, **changes: Any) -> httpx.AsyncClient:
        """A client of another sidecar with the same surroundings, apart from what is changed."""
        app = app_of(replace(self.backend, **changes))
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app, client=("10.1.2.3", 4567))
        return httpx.AsyncClient(transport=transport, base_url="http://sidecar", headers=headers)

    async def put_orders(self) -> None:
        """Limit a group called orders to 3,000 messages/s."""
        async with self.client() as client:
            await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 3_000})

    def throttle_orders(self) -> None:
        """Two brokers share 3,000 messages/s of orders; the second one is throttled."""
        self.views.certified["orders"] = (CERTIFICATE,)
        self.views.rows = (
            usage_row("broker-1", admitted=1_001, limit=1_000, throttled_permille=0),
            usage_row("broker-2", admitted=1_990, limit=2_000, throttled_permille=610),
        )
        for broker in ("broker-1", "broker-2"):
            key = ("orders", Dimension.PUBLISH_MESSAGES, broker)
            self.views.explanations[key] = explanation(broker)


class FixedNative:
    """Native enforcement that tells a test's state, and remembers of which native groups it was asked."""

    def __init__(self, told: NativeState) -> None:
        self.told = told
        self.asked: list[list[str]] = []

    def names(self, groups: Collection[str] | None = None) -> list[str]:
        """Return the state's native groups, or those that stand for these groups."""
        views = self.told.groups
        return [each.name for each in views if groups is None or {*groups} & {*each.groups}]

    def state(self, names: Collection[str] | None = None) -> NativeState:
        """Return the state with these native groups or all."""
        asked = self.names() if names is None else list(names)
        self.asked.append(asked)
        views = tuple(each for each in self.told.groups if each.name in asked)
        return replace(self.told, groups=views)


class Broker:
    """The own broker's web service: answers what a test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.answer: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(204)
        self.breaks_off = False

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Take a request in."""
        await request.aread()
        self.asked.append(request)
        answer = self.answer(request)

        async def pieces() -> AsyncIterator[bytes]:
            yield answer.content
            if self.breaks_off:
                raise httpx.ReadError("gone")

        return httpx.Response(answer.status_code, headers=answer.headers.raw, content=pieces())

    @property
    def relay(self) -> HttpBrokerRelay:
        """The way to it."""
        return HttpBrokerRelay("http://broker:8080", transport=httpx.MockTransport(self.handle))


def usage_row(
    broker: str, admitted: int, limit: int | None, throttled_permille: int
) -> BrokerUsageView:
    """A row of messages published."""
    return BrokerUsageView(
        broker=broker,
        admitted=Rates(publish_messages=admitted),
        limits=Rates(publish_messages=limit),
        throttled_permille=dict.fromkeys(Dimension, 0)
        | {Dimension.PUBLISH_MESSAGES: throttled_permille},
        participants=3,
        topics=2,
        report_age_ns=210 * MILLI_NS,
    )


def explanation(broker: str) -> Explanation:
    """Why the broker has its part of orders."""
    return Explanation(
        group="orders",
        dimension=Dimension.PUBLISH_MESSAGES,
        broker=broker,
        cluster_limit=3_000,
        local_limit=1_000 if broker == "broker-1" else 2_000,
        target=1_000 if broker == "broker-1" else 2_000,
        binding="demand" if broker == "broker-1" else "level",
        water_level=2_000,
        binds=None,
        decided_age_ns=400 * MILLI_NS,
        round=812,
        wants=(
            WantView("broker-1", 1_001, 1_001, 1, 1_001, 1_000, 0, 0),
            WantView("broker-2", None, 1_990, 1, 1_990, 2_000, 610, 210 * MILLI_NS),
        ),
        sentence=f"{broker} has what it has.",
    )
