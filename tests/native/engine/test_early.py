"""Topics that a broker loads before it knows their group get their limiter once it does."""

from __future__ import annotations

from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.early import DUE_MAX, EarlyTopics
from coordinator.native.engine.table import Statement
from tests.native.engine.steered import S, World, url


def started(*groups: str) -> EarlyTopics:
    """A broker has just started."""
    early = EarlyTopics()
    early.broker_started(groups, 1, 0)
    return early


def test_nothing_is_due_before_the_broker_names_the_group() -> None:
    """An attachment that it hears of earlier would be forgotten."""
    early = started("g", "h")
    early.poll({"t/n": "g", "t/m": "h"}, lambda _: False, S)
    assert early.due == {}
    assert early.is_expected
    early.poll({"t/n": "g", "t/m": "h"}, lambda group: group == "g", 2 * S)
    assert early.due == {"t/n": "g"}
    assert early.is_expected
    early.poll({"t/n": "g", "t/m": "h"}, lambda _: True, 3 * S)
    assert early.due == {"t/n": "g", "t/m": "h"}
    assert not early.is_expected


def test_topics_that_are_loaded_later_are_not_due() -> None:
    """The broker knows their group."""
    early = started("g")
    early.poll({"t/n": "g"}, lambda _: True, S)
    early.poll({"t/n": "g", "t/later": "g"}, lambda _: True, 2 * S)
    assert early.due == {"t/n": "g"}


def test_a_broker_that_does_not_name_a_group_is_watched_for_thirty_intervals() -> None:
    """Then it is as if it had just been found."""
    early = started("g")
    expected = []
    for seconds in (29, 30):
        early.poll({"t/n": "g"}, lambda _: False, seconds * S)
        expected.append(early.is_expected)
    assert expected == [True, False]
    early.poll({"t/n": "g"}, lambda _: True, 31 * S)
    assert early.due == {}


def test_a_bounded_number_of_namespaces_is_due() -> None:
    """Overflow finds the others."""
    early = started("g")
    loaded = {f"t/n{number}": "g" for number in range(DUE_MAX + 1)}
    early.poll(loaded, lambda _: True, S)
    assert len(early.due) == DUE_MAX


def test_a_broker_that_starts_anew_reports_by_a_new_producer_and_has_forgotten_nothing_yet() -> (
    None
):
    """Its sidecar takes that for the broker, and waits until it names its groups."""
    world = World("a")
    world.limit(a=3_000)
    a = world.sidecars["a"]
    said = Statement(url("a"), {}, "", "before", named=frozenset({"g"}))
    a.take(said, world.now_ns)
    world.write()
    attached_ns = {"g": world.now_ns - 60 * S}
    assert a.forgotten(attached_ns, world.now_ns) == frozenset()

    a.broker_started(world.now_ns)
    counts = {"t/n": NamespaceCount(messages=1_000), "t/of-no-group": NamespaceCount(messages=1)}
    a.count(counts, S // 2, world.now_ns)
    assert a.forgotten(attached_ns, world.now_ns) == frozenset()
    assert a.early.due == {}

    a.take(Statement(url("a"), {}, "", "after", named=frozenset({"g"})), world.now_ns)
    assert a.table.strangers(world.now_ns) == ()
    a.count(counts, S // 2, world.now_ns)
    assert a.early.due == {"t/n": "g"}


def test_a_broker_that_never_names_a_group_after_its_start_has_forgotten_it() -> None:
    """Two intervals and a second later, as after an attachment."""
    world = World("a")
    world.limit(a=3_000)
    a = world.sidecars["a"]
    attached_ns = {"g": world.now_ns - 60 * S}
    a.broker_started(world.now_ns)
    world.now_ns += 3 * S
    world.write()
    assert a.forgotten(attached_ns, world.now_ns) == {"g"}
