"""One reading: the broker's counters, then the gate's, then what escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Attachments, MonitoringClass
from coordinator.insight.model.conditions import ConditionKind
from coordinator.insight.model.reconciliation_views import EscapedTraffic
from coordinator.native.engine.counting import CounterReading, TopicCount
from coordinator.ports import BrokerUnreachable, Catalogue, PortError
from coordinator.reconciliation.engine.counting import BrokerBook, Row
from coordinator.reconciliation.engine.reconciliation import Reconciliation
from coordinator.reconciliation.shell.reconciler import Reconciler
from tests.memory.surroundings import ManualClock

TOPIC = "persistent://t/n/orders"
SIZE = 100


@dataclass
class Site:
    """A broker and its gate, as far as reconciliation asks them."""

    clock: ManualClock = field(default_factory=ManualClock)
    topics: tuple[str, ...] = (TOPIC,)
    #: To each topic.
    published: int = 0
    uncounted: tuple[str, ...] = ()
    totals: dict[Row, tuple[int, int]] = field(default_factory=dict)
    trouble: PortError | None = None
    asked: list[str] = field(default_factory=list)
    recorded: list[tuple[int, list[EscapedTraffic]]] = field(default_factory=list)

    async def read(self) -> CounterReading:
        """Return the broker's counters."""
        self.asked.append("broker")
        if self.trouble is not None:
            raise self.trouble
        counts = [
            TopicCount(
                "/".join(topic.split("/")[2:4]), topic, self.published, self.published * SIZE
            )
            for topic in self.topics
            if self.published
        ]
        return CounterReading(counts, uncounted=self.uncounted)

    async def passed_totals(self) -> Mapping[Row, tuple[int, int]]:
        """Return the gate's."""
        self.asked.append("gate")
        return dict(self.totals)

    def record(self, escaped: Sequence[EscapedTraffic], elapsed_ns: int, _now_ns: int) -> None:
        """Keep what escaped."""
        self.recorded.append((elapsed_ns // NANOS_PER_SECOND, [*escaped]))

    def reconciler(self) -> Reconciler:
        """Return the subject of the tests."""
        made = Reconciler(
            self.read, self.passed_totals, BrokerBook(), Reconciliation("broker-1"), self.clock,
            interval_s=2.0, part=0.02, record=self.record,
        )  # fmt: skip
        made.catalogue_changed(Catalogue(attachments=Attachments({}, {"t/n": "g"})))
        return made

    async def escape(self, reconciler: Reconciler, messages: int) -> None:
        """Let messages go round the gate, and read."""
        self.published += messages
        self.clock.advance(2 * NANOS_PER_SECOND)
        await reconciler.read()


async def test_the_gate_is_asked_after_the_broker() -> None:
    """Traffic in between can then hide other traffic for one reading, and not invent any."""
    site = Site()
    await site.reconciler().read()
    assert site.asked == ["broker", "gate"]


async def test_what_the_gate_did_not_pass_is_told() -> None:
    """With a view, a condition, and the rate of its group."""
    site = Site()
    reconciler = site.reconciler()
    await reconciler.read()
    for _ in range(4):
        site.totals["t/n", MonitoringClass.PUBLISH] = (site.published, site.published * SIZE)
        await site.escape(reconciler, 0)
    assert reconciler.view().escapes == ()
    for _ in range(4):
        await site.escape(reconciler, 400)
    view = reconciler.view()
    assert (view.on, view.interval_seconds, view.readings, view.error) == (True, 2.0, 9, "")
    (escape,) = view.escapes
    assert (escape.messages, escape.bytes, escape.escaping) == (1_200, 1_200 * SIZE, True)
    assert reconciler.accounts.sentences_of("g", MonitoringClass.PUBLISH) == (escape.sentence,)
    assert [each.subject for each in reconciler.accounts.conditions(0)] == ["broker-1 t/n Publish"]


async def test_counters_that_cannot_be_read_change_nothing() -> None:
    """The next reading includes the traffic of the meantime."""
    site = Site()
    reconciler = site.reconciler()
    await reconciler.read()
    await site.escape(reconciler, 400)
    site.trouble = BrokerUnreachable("GET /metrics/ answered 500")
    with pytest.raises(BrokerUnreachable):
        await site.escape(reconciler, 400)
    site.trouble = None
    await site.escape(reconciler, 400)
    await site.escape(reconciler, 0)
    assert reconciler.view().escapes[0].messages == 1_200


async def test_escaped_traffic_is_recorded_once_a_minute_and_at_the_end() -> None:
    """Each message once, by the time at which it was told."""
    site = Site()
    reconciler = site.reconciler()
    await reconciler.read()
    for _ in range(35):
        await site.escape(reconciler, 400)
    reconciler.record()
    reconciler.record()
    assert [(seconds, [each.messages for each in told]) for seconds, told in site.recorded] == [
        (60, [29 * 400]),
        (10, [5 * 400]),
        (0, []),
    ]


async def test_a_namespace_that_the_broker_does_not_count_readably_is_a_condition() -> None:
    """Until it does."""
    site = Site(uncounted=("t/odd",))
    reconciler = site.reconciler()
    await reconciler.read()
    (found,) = reconciler.accounts.conditions(0)
    assert (found.kind, found.subject) == (
        ConditionKind.TRAFFIC_ROUND_THE_GATE,
        "broker-1 t/odd uncounted",
    )
    assert [each.namespace for each in reconciler.view().uncounted] == ["t/odd"]
    site.uncounted = ()
    await reconciler.read()
    assert [*reconciler.accounts.conditions(0)] == []
