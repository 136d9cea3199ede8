"""All namespaces of a broker: which are told, charged, left out; and the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Attachments
from coordinator.insight.model.alarms import AlarmKind
from coordinator.reconciliation.engine.counting import Increase, PublishedCount
from coordinator.reconciliation.engine.reconciliation import (
    GATE_OTHERS,
    PULSARS_OWN,
    STEP,
    Reconciliation,
)
from coordinator.reconciliation.engine.ways import ListedPublisher, Way, WayFinding

STEP_NS = 2 * NANOS_PER_SECOND
DIRECT = WayFinding(Way.DIRECT, ListedPublisher("persistent://t/a/x", "shop", "10.0.0.9", 4_444))


class Played:
    """A reconciliation, fed every two seconds; it is told every suspect."""

    def __init__(self, exempt: tuple[str, ...] = (), **bounds: Any) -> None:
        self.all = Reconciliation(exempt, **bounds)
        self.now_ns = 0
        self.totals: dict[str, int] = {}
        self.step({}, {})

    def step(
        self,
        counted: Mapping[str, int],
        passed: Mapping[str, int] | None = None,
        finding: WayFinding = DIRECT,
    ) -> tuple[str, ...]:
        """Read once; without ``passed`` the gate passed nothing. Return the suspects."""
        self.now_ns += STEP_NS
        for name, messages in (passed or {}).items():
            self.totals[name] = self.totals.get(name, 0) + messages
        self.steps = sum(
            1
            for _ in self.all.read(
                {name: Increase(PublishedCount(each, 10 * each)) for name, each in counted.items()},
                {name: PublishedCount(each, 10 * each) for name, each in self.totals.items()},
                took_ns=0,
                now_ns=self.now_ns,
            )
        )
        suspects = self.all.suspects()
        for name in suspects:
            self.all.tell(name, finding, self.now_ns)
        return suspects


def test_the_namespace_that_escapes_is_told_and_no_other() -> None:
    """With its rate, its way and an alarm."""
    played = Played()
    for _ in range(4):
        assert played.step({"t/a": 500, "t/b": 100}, {"t/a": 100, "t/b": 100}) == ("t/a",)
    (escape,) = played.all.escapes()
    assert (escape.namespace, escape.total, escape.is_escaping) == (
        "t/a",
        PublishedCount(1_600, 16_000),
        True,
    )
    assert escape.rate.messages == pytest.approx(200)
    (sighting,) = played.all.sightings("broker-1")
    assert sighting.kind is AlarmKind.TRAFFIC_ROUND_THE_GATE
    assert sighting.subject == "broker-1 t/a"
    assert sighting.text.startswith("broker-1: 200 messages/s (+-")
    assert (
        "of t/a go round the gate, most likely a client at the broker's own port" in sighting.text
    )
    assert "producer shop of 10.0.0.9:4444" in sighting.text


def test_the_alarm_and_the_charge_end_with_the_traffic() -> None:
    """The total stays."""
    played = Played()
    played.all.attachments = Attachments({}, {"t/a": "g"})
    played.step({"t/a": 500})
    assert played.all.by_group()["g"].messages > 0
    for _ in range(3):
        played.step({})
    assert list(played.all.sightings("broker-1")) == []
    assert played.all.by_group() == {}
    (escape,) = played.all.escapes()
    assert (escape.total.messages, escape.is_escaping, escape.rate.messages) == (500, False, 0)


def test_pulsars_own_namespace_and_exempt_ones_are_not_compared() -> None:
    """Brokers and sidecars publish there over the internal listener."""
    played = Played(("t/functions",))
    assert played.step({PULSARS_OWN: 900, "t/functions": 900}) == ()
    assert played.all.reconciled == 0


@pytest.mark.parametrize(
    ("namespace", "is_compared"),
    [
        ("pulsar/10.0.0.7:8080", False),
        ("pulsar/standalone/broker-1.brokers:8443", False),
        ("pulsar/functions", True),
        ("shop/10.0.0.7:8080", True),
        ("pulsar/10.0.0.7:8080:9", True),
    ],
)
def test_a_broker_that_is_asked_for_its_health_is_no_escape(
    namespace: str, is_compared: bool
) -> None:
    """It publishes a message of its own, to a namespace that has its name."""
    played = Played()
    assert played.step({namespace: 900}) == ((namespace,) if is_compared else ())


def test_an_escape_counts_for_every_group_of_its_namespace() -> None:
    """Namespace, tenant and cluster; the rates of several namespaces add up."""
    played = Played(cluster_group="all")
    played.all.attachments = Attachments({"t": "tenant"}, {"t/a": "a"})
    for _ in range(3):
        played.step({"t/a": 400, "t/b": 200})
    rates = {name: rate.messages for name, rate in played.all.by_group().items()}
    assert rates == pytest.approx({"a": 200, "tenant": 300, "all": 300})
    assert [escape.namespace for escape in played.all.namespaces_of("tenant")] == ["t/a", "t/b"]
    assert played.all.namespaces_of("other") == ()


def test_no_namespace_is_judged_while_the_gate_counts_some_together() -> None:
    """Its count of each is unknown then."""
    played = Played()
    assert played.step({"t/a": 900}, {GATE_OTHERS: 900}) == ()
    assert played.step({"t/a": 900}) == ("t/a",)


def test_a_namespace_without_room_is_counted_as_left_out() -> None:
    """An idle one makes room for it."""
    played = Played(namespaces_max=2)
    played.step({"t/a": 1, "t/b": 1, "t/c": 1})
    assert (played.all.reconciled, played.all.left_out) == (2, 1)
    for _ in range(17):
        played.step({"t/c": 0})
    assert played.all.left_out == 0
    assert played.step({"t/c": 500}) == ("t/c",)


def test_many_namespaces_are_read_in_steps() -> None:
    """A reading delays no round."""
    played = Played()
    played.step(dict.fromkeys((f"t/{number}" for number in range(1_000)), 1))
    assert played.steps == 1_000 // STEP


def test_further_namespaces_are_told_together() -> None:
    """The number of series is bounded."""
    played = Played(series_max=1)
    played.step({"t/a": 500, "t/b": 300, "t/c": 200})
    assert [escape.namespace for escape in played.all.escapes()] == ["t/a"]
    assert played.all.others == PublishedCount(500, 5_000)


def test_named_peers_of_replication_raise_no_alarm() -> None:
    """Their traffic is paid for elsewhere."""
    played = Played()
    for _ in range(3):
        played.step({"t/a": 500}, finding=WayFinding(replicated_permille=1_000))
    (escape,) = played.all.escapes()
    assert (escape.total.messages, escape.replicated.messages) == (0, 1_500)
    assert list(played.all.sightings("broker-1")) == []
