"""One reading: counters, then the publishers of what they do not explain, then the charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from coordinator.adapters.memory.surroundings import ManualClock
from coordinator.core.model import NANOS_PER_SECOND, Attachments
from coordinator.insight.model.alarms import AlarmKind
from coordinator.insight.model.gate_views import StrandedClient
from coordinator.insight.model.reconciliation_views import EscapedTraffic
from coordinator.native.engine.counting import CounterReading, TopicCount
from coordinator.ports import BrokerUnreachable, Catalogue, NotFound, PortError, Refused
from coordinator.reconciliation.engine.account import Rate
from coordinator.reconciliation.engine.reconciliation import PULSARS_OWN, Reconciliation
from coordinator.reconciliation.engine.ways import KnownOrigins, ListedPublisher, Way
from coordinator.reconciliation.shell.reconciler import Reconciler

TOPIC = "persistent://t/n/orders"
GATE = ("127.0.0.1", 41_000)


@dataclass
class Site:
    """A broker and its gate, as far as reconciliation asks them."""

    clock: ManualClock = field(default_factory=ManualClock)
    counts: list[TopicCount] = field(default_factory=list)
    uncounted: tuple[str, ...] = ()
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)
    listed: dict[str, list[ListedPublisher]] = field(default_factory=dict)
    trouble: PortError | None = None
    refusal: PortError | None = None
    asked: list[str] = field(default_factory=list)
    charged: list[Mapping[str, Rate]] = field(default_factory=list)
    lost: list[StrandedClient] = field(default_factory=list)
    recorded: list[tuple[int, list[EscapedTraffic]]] = field(default_factory=list)

    async def read(self) -> CounterReading:
        """Return the broker's counters."""
        if self.trouble is not None:
            raise self.trouble
        return CounterReading(self.counts, uncounted=self.uncounted)

    async def published_totals(self) -> Mapping[str, tuple[int, int]]:
        """Return the gate's."""
        return dict(self.totals)

    async def published_topics(self) -> frozenset[str]:
        """Return a topic that is published to through the gate."""
        return frozenset({"persistent://t/n/through"})

    async def stranded(self) -> Sequence[StrandedClient]:
        """Return the clients of the test."""
        return self.lost

    async def broker_side_addresses(self) -> frozenset[tuple[str, int]]:
        """Return the gate's one connection."""
        return frozenset({GATE})

    async def publishers(self, topic: str) -> Sequence[ListedPublisher]:
        """Return a topic's publishers."""
        self.asked.append(topic)
        if self.refusal is not None:
            raise self.refusal
        if topic not in self.listed:
            raise NotFound(topic)
        return self.listed[topic]

    async def topics(self, namespace: str) -> Sequence[str]:
        """Return the topics that are listed."""
        self.asked.append(namespace)
        return [*self.listed]

    def record(self, escaped: Sequence[EscapedTraffic], elapsed_ns: int, _now_ns: int) -> None:
        """Keep what escaped."""
        self.recorded.append((elapsed_ns // NANOS_PER_SECOND, [*escaped]))

    def reconciler(self) -> Reconciler:
        """Return the subject of the tests."""
        made = Reconciler(
            "broker-1", self, self, self, Reconciliation(), KnownOrigins(), self.clock,
            interval_s=2.0, part=0.02, charge=self.charged.append, record=self.record,
        )  # fmt: skip
        made.catalogue_changed(Catalogue(attachments=Attachments({}, {"t/n": "g"})))
        return made

    async def escape(self, reconciler: Reconciler, messages: int, topic: str = TOPIC) -> None:
        """Let messages go round the gate, and read."""
        before = next((each.messages for each in self.counts), 0)
        self.counts = [TopicCount("t/n", topic, before + messages, 0)]
        self.clock.advance(2 * NANOS_PER_SECOND)
        await reconciler.read()


@pytest.fixture
async def site() -> Site:
    """A site whose topic has one publisher beside the gate."""
    direct = ListedPublisher(TOPIC, "shop", "10.0.0.9", 4_444, "Pulsar-CPP-v3.5.1")
    return Site(listed={TOPIC: [ListedPublisher(TOPIC, "through", *GATE), direct]})


async def test_the_publisher_of_a_difference_is_named(site: Site) -> None:
    """By the statistics of the topic that grew; and its namespace's group is charged."""
    reconciler = site.reconciler()
    await reconciler.read()
    for _ in range(4):
        await site.escape(reconciler, 400)
    (escape,) = reconciler.state().escapes
    assert escape.finding.way is Way.DIRECT
    assert "producer shop of 10.0.0.9:4444 (Pulsar-CPP-v3.5.1)" in escape.sentence
    assert site.charged[-1]["g"].messages == pytest.approx(200)
    assert reconciler.escapes_of("g") == (escape,)
    assert [each.subject for each in reconciler.sightings(0)] == ["broker-1 t/n"]


async def test_publishers_are_asked_for_only_where_something_is_unexplained(site: Site) -> None:
    """The broker is asked once in ten seconds, as the answer costs it something."""
    reconciler = site.reconciler()
    for _ in range(3):
        site.totals["t/n"] = (sum(each.messages for each in site.counts), 0)
        await reconciler.read()
    assert site.asked == []
    for _ in range(5):
        await site.escape(reconciler, 400)
    assert site.asked == [TOPIC]
    for _ in range(5):
        await site.escape(reconciler, 400)
    assert site.asked == [TOPIC, TOPIC]


async def test_topics_are_asked_for_where_the_broker_counts_namespaces_only(site: Site) -> None:
    """One more request, while it goes on."""
    reconciler = site.reconciler()
    await reconciler.read()
    await site.escape(reconciler, 400, topic="")
    assert site.asked == ["t/n", TOPIC]
    (escape,) = reconciler.state().escapes
    assert escape.finding.way is Way.DIRECT


async def test_a_topic_that_is_gone_leaves_the_way_open(site: Site) -> None:
    """The difference is told all the same."""
    site.listed = {}
    reconciler = site.reconciler()
    await reconciler.read()
    await site.escape(reconciler, 400)
    (escape,) = reconciler.state().escapes
    assert (escape.finding.way, escape.total.messages) == (Way.UNSEEN, 400)


async def test_statistics_that_are_refused_leave_the_way_unknown(site: Site) -> None:
    """As without a super-user's token."""
    site.refusal = Refused("GET /persistent/t/n/orders/stats answered 403")
    reconciler = site.reconciler()
    await reconciler.read()
    await site.escape(reconciler, 400)
    (escape,) = reconciler.state().escapes
    assert escape.sentence.endswith("way unknown: GET /persistent/t/n/orders/stats answered 403")


async def test_counters_that_cannot_be_read_change_nothing(site: Site) -> None:
    """The next reading includes the traffic of the meantime."""
    reconciler = site.reconciler()
    await reconciler.read()
    await site.escape(reconciler, 400)
    site.trouble = BrokerUnreachable("GET /metrics/ answered 500")
    with pytest.raises(BrokerUnreachable):
        await site.escape(reconciler, 400)
    site.trouble = None
    await site.escape(reconciler, 400)
    assert reconciler.state().escapes[0].total.messages == 1_200


async def test_escaped_traffic_is_recorded_once_a_minute_and_at_the_end(site: Site) -> None:
    """Each message once, with the groups and the way of its namespace."""
    reconciler = site.reconciler()
    await reconciler.read()
    for _ in range(35):
        await site.escape(reconciler, 400)
    reconciler.record()
    reconciler.record()
    assert [(seconds, [each.messages for each in told]) for seconds, told in site.recorded] == [
        (60, [30 * 400]),
        (10, [5 * 400]),
        (0, []),
    ]
    assert site.recorded[0][1][0][:3] == ("t/n", ("g",), "direct")


async def test_clients_that_do_not_come_are_told_if_the_own_broker_serves_their_topic(
    site: Site,
) -> None:
    """The others may well be at another gate; the broker is asked once in ten seconds."""
    here = StrandedClient("10.0.0.9", TOPIC, 9)
    site.lost = [StrandedClient("10.0.0.9", "persistent://t/n/elsewhere", 20), here]
    reconciler = site.reconciler()
    await reconciler.read()
    assert reconciler.state().stranded == (here,)
    site.lost = []
    await site.escape(reconciler, 0)
    assert reconciler.state().stranded == (here,)
    for _ in range(5):
        await site.escape(reconciler, 0)
    assert reconciler.state().stranded == ()


async def test_a_namespace_that_the_broker_does_not_count_readably_is_told_by_an_alarm(
    site: Site,
) -> None:
    """Until it does; Pulsar's own is not compared in any case."""
    reconciler = site.reconciler()
    site.uncounted = ("t/odd", PULSARS_OWN)
    await reconciler.read()
    (found,) = reconciler.sightings(0)
    assert (found.kind, found.subject) == (
        AlarmKind.TRAFFIC_ROUND_THE_GATE,
        "broker-1 t/odd uncounted",
    )
    assert reconciler.state().uncounted == ("t/odd",)
    site.uncounted = ()
    await reconciler.read()
    assert [*reconciler.sightings(0)] == []
