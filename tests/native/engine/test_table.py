"""The table keeps brokers' entries and names the strangers that write there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine import table as table_module
from coordinator.native.engine.entries import NOTHING, Amounts
from coordinator.native.engine.table import REST, Statement, Table

S = NANOS_PER_SECOND
A, B = "pulsar://a:6650", "pulsar://b:6650"


def own(broker: str, messages: int, producer: str = "p") -> Statement:
    """A broker's own report."""
    return Statement(broker, {"g": Amounts(messages)}, producer=f"{broker} {producer}")


def ours(broker: str, messages: int, sidecar: str = "a") -> Statement:
    """A sidecar's entry."""
    return Statement(broker, {"g": Amounts(messages)}, sidecar=sidecar)


def test_the_last_word_counts() -> None:
    """Brokers do the same; groups that a message leaves out stay as they are."""
    table = Table()
    table.take(own(A, 5), 1, 0)
    table.take(ours(A, 1_000), 1, 1)
    table.take(Statement(A, {}), 1, 2)
    table.take(ours(B, 7), 1, 3)
    table.take(Statement(REST, {"g": Amounts(100)}, sidecar="a"), 1, 4)

    assert table.of(A, "g") == Amounts(1_000)
    assert table.others(A, "g") == Amounts(7)
    assert table.of("pulsar://c", "g") == NOTHING


def test_a_brokers_report_within_a_second_of_a_sidecars_entry_does_not_change_its_row() -> None:
    """It is written over at once, but for groups that no sidecar writes. Later the broker counts."""
    table = Table()
    table.take(ours(B, 1_000), 1, 0)
    both = {"g": Amounts(682), "h": Amounts(5)}
    table.take(Statement(B, both, producer="p"), 1, S)
    assert table.of(B, "g") == Amounts(1_000)
    assert table.of(B, "h") == Amounts(5)
    assert table.reported(B, "g") == (Amounts(682), S)

    table.take(Statement(B, both, producer="p"), 1, S + 1)
    assert table.of(B, "g") == Amounts(682)


def test_what_a_stranger_writes_is_noticed_at_once_in_every_row() -> None:
    """Brokers take it, so an entry or a rest that only seems to be in force would never be mended."""
    table = Table()
    table.take(own(B, 5), 1, 0)
    for name in (B, REST):
        table.take(ours(name, 1_000), 1, 1)
        table.take(own(name, 77, "evil"), 1, 2)
        assert table.of(name, "g") == Amounts(77)


def test_a_broker_whose_sidecar_is_gone_and_that_is_silent_is_dead() -> None:
    """While the sidecar is a member, or the broker itself reports, it is not."""
    table = Table()
    table.take(own(B, 5), 1, 0)
    table.set_members(frozenset({"b"}))
    table.take(ours(B, 1_000, "b"), 1, 1)
    assert list(table.dead(1, 60 * S)) == []

    table.set_members(frozenset())
    assert list(table.dead(1, 5 * S)) == [], (
        "one whose use does not move reports once in five intervals"
    )
    assert list(table.dead(1, 7 * S)) == [B]
    table.take(own(B, 5), 1, 7 * S)
    assert list(table.dead(1, 8 * S)) == []


def test_a_broker_that_refuses_connections_is_dead_until_it_reports() -> None:
    """It is asked once it has not reported for an interval and no sidecar is there for it."""
    table = Table()
    table.set_members(frozenset({"b"}))
    table.take(own(B, 5), 1, 0)
    table.take(ours(B, 1_000, "b"), 1, 1)
    assert list(table.doubted(1, 2 * S)) == []
    table.set_members(frozenset())
    assert list(table.doubted(1, S)) == []
    assert list(table.doubted(1, 2 * S)) == [B]

    table.refuse(B, 2 * S)
    assert list(table.doubted(1, 2 * S)) == []
    assert list(table.dead(1, 2 * S)) == [B]
    assert list(table.orphans(1, 2 * S)) == []
    table.take(own(B, 5), 1, 3 * S)
    assert list(table.dead(1, 3 * S)) == []
    assert list(table.orphans(1, 3 * S)) == [B]


def test_a_broker_that_reports_and_whose_sidecar_is_gone_is_an_orphan() -> None:
    """Until that sidecar writes again: being a member again is not enough."""
    table = Table()
    table.set_members(frozenset({"a", "b"}))
    table.take(own(B, 5), 1, 0)
    table.take(ours(B, 1_000, "b"), 1, 1)
    assert list(table.orphans(1, 1)) == []

    table.set_members(frozenset({"a"}))
    assert list(table.orphans(1, 1)) == [B]
    table.set_members(frozenset({"a", "b"}))
    table.take(replace(ours(B, 500, "a"), stands_in=True), 1, 2)
    assert list(table.orphans(1, 2)) == [B]
    assert table.reported(B, "g") == (Amounts(5), 0)
    table.take(ours(B, 500, "b"), 1, 3)
    assert list(table.orphans(1, 3)) == []


def test_a_broker_whose_sidecar_has_not_written_for_a_second_is_stalled() -> None:
    """Only while the sidecar is a member and the broker reports: then nothing writes its row."""
    table = Table()
    table.set_members(frozenset({"a", "b"}))
    table.take(own(B, 5), 1, 0)
    table.take(ours(B, 1_000, "b"), 1, 0)
    assert list(table.steered(S)) == [B]
    assert list(table.stalled(1, S)) == []

    assert list(table.steered(S + 1)) == []
    assert list(table.stalled(1, S + 1)) == [B]
    table.take(replace(ours(B, 7, "a"), stands_in=True), 1, 2 * S)
    assert list(table.stalled(1, 2 * S)) == [B]
    assert table.entry(B, "g") == Amounts(1_000)
    assert list(table.stalled(1, 7 * S)) == [], "the broker itself is silent"

    table.take(own(B, 5), 1, 7 * S)
    table.set_members(frozenset({"a"}))
    assert list(table.stalled(1, 7 * S)) == []
    assert table.entry(B, "g") is None


def test_a_broker_names_the_groups_that_it_knows() -> None:
    """Its last report counts; a stranger's does not, and invented groups fill no memory."""
    table = Table()
    table.set_groups(frozenset({"g", "h"}))
    table.take(replace(own(A, 5), named=frozenset({"g", "h"})), 1, 0)
    assert table.names(A, "h")
    table.take(replace(own(A, 5, "evil"), named=frozenset({"x"})), 1, 1)
    assert not table.names(A, "x")
    table.take(replace(own(A, 5), named=frozenset({"g"})), 1, 2)
    assert table.names(A, "g")
    assert not table.names(A, "h")
    assert not table.names(B, "g")
    invented = frozenset({"g", *(f"invented-{number}" for number in range(1_000))})
    table.take(replace(own(A, 5), named=invented), 1, 3)
    assert table.names(A, "g")
    assert not table.names(A, "invented-7")


def test_invented_brokers_are_remembered_up_to_a_bound() -> None:
    """Those that were silent longest are forgotten."""
    table = Table()
    for number in range(5_000):
        table.take(own(f"pulsar://invented-{number}", 1), 1, number)
        table.take(own(A, 1), 1, number)
    assert len(table.brokers()) == 4_096
    assert A in table.brokers()


def test_a_broker_without_a_sidecar_is_given_five_intervals() -> None:
    """It reports no less often, however idle."""
    table = Table()
    table.take(own(B, 5), 2, 0)
    assert list(table.dead(2, 10 * S)) == []
    assert list(table.dead(2, 12 * S)) == [B]


def test_the_zero_of_a_dead_broker_is_repeated_for_two_minutes() -> None:
    """A broker that was not connected to the topic of entries did not hear the first one."""
    table = Table()
    table.take(own(B, 5), 1, 0)
    assert list(table.dead(1, 7 * S)) == [B]
    table.take(ours(B, 0), 1, 7 * S)
    assert list(table.dead(1, 7 * S + S // 2)) == []
    assert list(table.dead(1, 9 * S)) == [B]
    table.take(ours(B, 0), 1, 126 * S)
    assert list(table.dead(1, 128 * S)) == []


def test_a_row_that_was_always_zero_is_left_alone() -> None:
    """With nothing in it there is nothing to do."""
    table = Table()
    table.take(own(B, 0), 1, 0)
    assert list(table.dead(1, 99 * S)) == []


def test_a_second_producer_in_a_brokers_name_is_a_stranger() -> None:
    """Named while the broker itself is heard; a restarted broker has a new producer and is none."""
    table = Table()
    table.take(own(A, 5), 1, 0)
    table.take(own(A, 9_999, "evil"), 1, 1 * S)
    (stranger,) = table.strangers(2 * S)
    assert (stranger.broker, stranger.producer) == (A, f"{A} evil")
    assert table.of(A, "g") == Amounts(9_999), "brokers believe it"

    table.take(own(A, 5, "restarted"), 1, 20 * S)
    assert len(table.strangers(20 * S)) == 1
    assert table.strangers(90 * S) == ()


def test_whoever_reports_in_the_name_of_the_rest_is_a_stranger() -> None:
    """From the first message on: no broker has that name, and sidecars write entries in it."""
    table = Table()
    table.take(own(REST, 9_999, "evil"), 1, 0)
    (stranger,) = table.strangers(1)
    assert stranger.broker == REST
    assert table.of(REST, "g") == Amounts(9_999), "brokers believe it"


def test_strangers_are_remembered_up_to_a_bound() -> None:
    """Invented names fill no memory."""
    table = Table()
    table.take(own(A, 5), 1, 0)
    for number in range(1_000):
        table.take(own(A, 1, str(number)), 1, 1)
    assert len(table.strangers(2)) == 100


def test_a_broker_that_reports_and_that_no_sidecar_steers_is_named() -> None:
    """After five intervals; not one that is silent, and not one whose sidecar is a member."""
    table = Table()
    table.set_members(frozenset({"a"}))
    for second in range(8):
        table.take(own(A, 5), 1, second * S)
        table.take(own(B, 5), 1, second * S)
        table.take(ours(A, 9), 1, second * S)
        named = table.unsteered(1, second * S)
        assert named == (() if second <= 6 else (B,))
    assert table.unsteered(1, 14 * S) == ()


def test_invented_groups_are_kept_in_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known groups have their amounts in any number; room comes back when a group becomes known."""
    monkeypatch.setattr(table_module, "_UNKNOWN_MAX", 3)
    table = Table()
    table.set_groups(frozenset({"g", "h"}))
    invented = {f"x{number}": Amounts(1) for number in range(10)}
    table.take(Statement(A, {**invented, "g": Amounts(5)}, producer="p"), 1, 0)
    table.take(Statement(B, {**invented, "h": Amounts(6)}, sidecar="b"), 1, 1)

    assert table.of(A, "g") == Amounts(5)
    assert table.of(B, "h") == Amounts(6)
    assert len(table.groups_of(A)) + len(table.groups_of(B)) == 2 + 3

    table.set_groups(frozenset({"g", "h", "x0"}))
    table.take(Statement(B, {"later": Amounts(7)}, sidecar="b"), 1, 2)
    assert table.of(B, "later") == Amounts(7)


def test_a_name_too_long_is_not_kept() -> None:
    """A message may hold five megabytes of it."""
    table = Table()
    table.take(Statement(A, {"x" * 2_000: Amounts(1)}, producer="p"), 1, 0)
    assert table.groups_of(A) == ()


def test_groups_that_are_gone_leave_nothing_once_their_amounts_are_nothing() -> None:
    """Groups come and go for as long as a sidecar runs."""
    table = Table()
    for number in range(100):
        name = f"g{number}"
        table.set_groups(frozenset({name}))
        table.take(Statement(A, {name: Amounts(5)}, producer="p"), 1, 0)
        table.take(Statement(A, {name: Amounts(1_000)}, sidecar="a"), 1, 1)
        table.set_groups(frozenset())
        assert table.of(A, name) == Amounts(1_000)
        table.take(Statement(A, {name: NOTHING}, sidecar="a"), 1, 2)
        table.set_groups(frozenset())
        assert table.groups_of(A) == ()
        assert table.entry(A, name) is None
        assert table.reported(A, name) == (NOTHING, None)
