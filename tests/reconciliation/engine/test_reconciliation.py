"""All namespaces of a broker, each class for itself: which are told, which left out; and the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Attachments, MonitoringClass
from coordinator.insight.model.conditions import ConditionKind
from coordinator.insight.model.reconciliation_views import EscapedTraffic, EscapeView
from coordinator.reconciliation.engine.account import NamespaceAccount
from coordinator.reconciliation.engine.counting import (
    BUS,
    ENDED_ROW,
    Row,
    Volume,
)
from coordinator.reconciliation.engine.reconciliation import OTHERS, SMALL, STEP, Reconciliation

STEP_NS = 2 * NANOS_PER_SECOND
SIZE = 100
PUBLISH, DISPATCH = MonitoringClass.PUBLISH, MonitoringClass.DISPATCH


class Played:
    """A reconciliation, fed every two seconds."""

    def __init__(self, **bounds: Any) -> None:
        self.all = Reconciliation("broker-1", **bounds)
        self.now_ns = 0
        self.totals: dict[Row, int] = {}
        self.step({})

    def step(
        self, counted: Mapping[Row, int], passed: Mapping[Row, int] | None = None, times: int = 1
    ) -> None:
        """Read some times; without ``passed`` the gate passed nothing."""
        for _ in range(times):
            self.now_ns += STEP_NS
            for row, messages in (passed or {}).items():
                self.totals[row] = self.totals.get(row, 0) + messages
            self.steps = sum(
                1
                for _ in self.all.read(
                    {row: Volume(each, SIZE * each) for row, each in counted.items()},
                    {row: Volume(each, SIZE * each) for row, each in self.totals.items()},
                    took_ns=0,
                    now_ns=self.now_ns,
                )
            )

    def told(self) -> dict[Row, int]:
        """Return the messages that were told, by row."""
        return {
            (escape.namespace, escape.monitoring_class): escape.messages
            for escape in self.all.escapes()
        }


def test_the_row_that_escapes_is_told_and_no_other() -> None:
    """With its rate and a condition."""
    played = Played()
    both = {("t/a", PUBLISH): 100, ("t/a", DISPATCH): 100, ("t/b", DISPATCH): 100}
    played.step(both | {("t/a", DISPATCH): 500}, both, times=5)
    (escape,) = played.all.escapes()
    assert (escape.namespace, escape.monitoring_class) == ("t/a", DISPATCH)
    assert (escape.messages, escape.bytes, escape.escaping) == (1_600, 1_600 * SIZE, True)
    assert escape.bytes_per_second == pytest.approx(200 * SIZE)
    (condition,) = played.all.conditions(0)
    assert condition.kind is ConditionKind.TRAFFIC_ROUND_THE_GATE
    assert condition.subject == "broker-1 t/a Dispatch"
    assert condition.sentence == (
        "broker-1: 20,000 bytes/s (200 messages/s) dispatched from t/a go round the gate"
    )


def test_the_condition_ends_with_the_traffic() -> None:
    """The total stays."""
    played = Played()
    played.all.attachments = Attachments({}, {"t/a": "g"})
    played.step({("t/a", PUBLISH): 500}, times=3)
    assert played.all.rates()["g", PUBLISH].bytes > 0
    played.step({}, times=4)
    assert list(played.all.conditions(0)) == []
    assert played.all.rates() == {}
    (escape,) = played.all.escapes()
    assert (escape.messages, escape.escaping, escape.bytes_per_second) == (1_500, False, 0)


@pytest.mark.parametrize("namespace", ["pulsar/system", "pulsar/10.0.0.7:8080", "public/functions"])
def test_no_namespace_is_exempt(namespace: str) -> None:
    """Pulsar's own ones are compared as all others are."""
    played = Played()
    played.step({(namespace, PUBLISH): 900}, times=3)
    assert len(list(played.all.conditions(0))) == 1


def test_what_a_broker_writes_itself_is_no_condition() -> None:
    """A change of a topic's policies every other second."""
    played = Played()
    played.step({("t/a", PUBLISH): 2 * SMALL // SIZE - 1}, times=10)
    (escape,) = played.all.escapes()
    assert escape.messages > 0
    assert not escape.escaping
    assert list(played.all.conditions(0)) == []


def test_bus_topics_are_no_condition() -> None:
    """Sidecars speak there without a gate; their rate is shown."""
    played = Played()
    played.step({(BUS, PUBLISH): 900}, times=4)
    (escape,) = played.all.escapes()
    assert (escape.namespace, escape.escaping) == (BUS, False)
    assert escape.bytes_per_second == pytest.approx(450 * SIZE)
    assert list(played.all.conditions(0)) == []


def test_an_escape_counts_for_every_group_of_its_namespace() -> None:
    """Namespace, tenant and cluster; the rates of several namespaces add up."""
    played = Played(cluster_group="all")
    played.all.attachments = Attachments({"t": "tenant"}, {"t/a": "a"})
    played.step({("t/a", PUBLISH): 400, ("t/b", PUBLISH): 200, (BUS, PUBLISH): 100}, times=4)
    rates = {row: rate.messages for row, rate in played.all.rates().items()}
    expected = {("a", PUBLISH): 200, ("tenant", PUBLISH): 300, ("all", PUBLISH): 300}
    assert rates == pytest.approx(expected)
    assert len(played.all.sentences_of("tenant", PUBLISH)) == 2
    assert played.all.sentences_of("tenant", DISPATCH) == ()
    assert played.all.sentences_of("other", PUBLISH) == ()


def test_a_row_without_room_is_counted_as_left_out() -> None:
    """An idle one makes room for it."""
    played = Played(accounts_max=2)
    rows = [("t/a", PUBLISH), ("t/b", PUBLISH), ("t/c", PUBLISH)]
    played.step(dict.fromkeys(rows, 1))
    assert (played.all.reconciled, played.all.left_out) == (2, 1)
    played.step({rows[2]: 0}, times=17)
    assert played.all.left_out == 0
    played.step({rows[2]: 500}, times=2)
    assert played.told() == {rows[2]: 500}


def test_many_rows_without_room_look_for_it_once_in_a_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenant may have any number of namespaces, and all accounts are looked over."""
    looked_at, is_idle = 0, NamespaceAccount.is_idle

    def counting(account: NamespaceAccount) -> bool:
        nonlocal looked_at
        looked_at += 1
        return is_idle(account)

    monkeypatch.setattr(NamespaceAccount, "is_idle", counting)
    played = Played(accounts_max=10)
    played.step({(f"t/{number}", PUBLISH): 1 for number in range(100)})
    assert (played.all.reconciled, played.all.left_out) == (10, 90)
    assert looked_at == 10


def test_many_rows_are_read_in_steps() -> None:
    """A reading delays no round."""
    played = Played()
    played.step({(f"t/{number}", PUBLISH): 1 for number in range(1_000)})
    assert played.steps == 1_000 // STEP


def test_further_rows_are_told_together() -> None:
    """The number of series is bounded."""
    played = Played(series_max=1)
    counted = {("t/a", PUBLISH): 500, ("t/b", PUBLISH): 300, ("t/c", DISPATCH): 200}
    played.step(counted, times=2)
    assert played.told() == {
        ("t/a", PUBLISH): 500,
        (OTHERS, PUBLISH): 300,
        (OTHERS, DISPATCH): 200,
    }


def test_what_ended_subscriptions_were_sent_round_the_gate_is_told_in_bytes() -> None:
    """By the broker's count of all, less what the gate passed and what accounts find."""
    played = Played()
    through, round_it, unlisted = 300, 200, 100
    for _ in range(5):
        played.step({("t/a", DISPATCH): 0, ENDED_ROW: 0})
    played.step(
        {("t/a", DISPATCH): through + round_it, ENDED_ROW: through + round_it + unlisted},
        {("t/a", DISPATCH): through},
        times=4,
    )
    found = by_row(played)
    assert {row: each.bytes for row, each in found.items()} == {
        ("t/a", DISPATCH): 600 * SIZE,
        ENDED_ROW: 300 * SIZE,
    }
    assert found[ENDED_ROW].escaping


def test_readers_of_the_gate_that_end_do_not_hide_what_others_are_sent() -> None:
    """The broker lists nothing of them any more, so that less than nothing seems to have escaped."""
    played = Played()
    for _ in range(5):
        played.step({("t/a", DISPATCH): 0, ENDED_ROW: 0})
    played.step({("t/a", DISPATCH): 200, ENDED_ROW: 500}, {("t/a", DISPATCH): 300}, times=4)
    assert {row: each.bytes for row, each in by_row(played).items()} == {ENDED_ROW: 600 * SIZE}


def by_row(played: Played) -> dict[Row, EscapeView]:
    """Everything that was told."""
    return {(each.namespace, each.monitoring_class): each for each in played.all.escapes()}


def test_each_message_is_recorded_once() -> None:
    """With the groups and the class of its namespace."""
    played = Played()
    played.all.attachments = Attachments({}, {"t/a": "g"})
    played.step({("t/a", DISPATCH): 500}, times=3)
    assert played.all.to_record() == (EscapedTraffic("t/a", ("g",), DISPATCH, 1_000, 1_000 * SIZE),)
    assert played.all.to_record() == ()
    played.step({})
    (since,) = played.all.to_record()
    assert since.messages == 500
