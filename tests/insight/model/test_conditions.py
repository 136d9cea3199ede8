"""Conditions: the table of their kinds, and what is listed and counted of those that hold."""

from __future__ import annotations

from itertools import permutations

import pytest

from coordinator.insight.model.conditions import (
    MAX_PER_KIND,
    TABLE,
    Condition,
    ConditionKind,
    Conditions,
)


def lost(peer: str = "b2", sentence: str = "gone") -> Condition:
    """A condition that holds."""
    return Condition(ConditionKind.PEER_LOST, peer, sentence)


@pytest.mark.parametrize("kind", ConditionKind)
def test_every_kind_says_how_urgent_it_is_and_what_to_do(kind: ConditionKind) -> None:
    """A condition without a remedy only worries."""
    view = Condition(kind, "b1", "it holds").view()

    assert (view.condition, view.severity) == (kind.value, TABLE[kind].severity.value)
    assert view.remedy == TABLE[kind].remedy
    assert view.remedy.endswith(".")


def test_a_condition_may_know_a_better_remedy_than_its_kind() -> None:
    """As those of the broker's own limiter do."""
    own = Condition(ConditionKind.NATIVE_INEXACT, "b1 clock", "apart", "keep clocks with NTP")

    assert own.view().remedy == "keep clocks with NTP"


def test_the_worst_come_first_however_they_were_found() -> None:
    """Then by kind and subject, so that two answers can be compared."""
    sorted_ones = (
        Condition(ConditionKind.CERTIFICATE_HIGH, "orders", "too much"),
        Condition(ConditionKind.BUS_SILENT, "b1", "silent"),
        lost("b2"),
        lost("b3"),
        Condition(ConditionKind.THROTTLED, "orders", "waits"),
    )
    for found in permutations(sorted_ones):
        assert Conditions.of(found).listed == sorted_ones


def test_what_was_found_twice_is_one_condition() -> None:
    """The last words count."""
    conditions = Conditions.of([lost(), lost(sentence="still gone")])

    assert [each.sentence for each in conditions.listed] == ["still gone"]
    assert conditions.counts == {ConditionKind.PEER_LOST: 1}


def test_of_one_kind_a_bounded_number_is_listed_and_all_are_counted() -> None:
    """Another kind has room of its own."""
    many = [lost(f"b{number}") for number in range(MAX_PER_KIND + 7)]
    conditions = Conditions.of([*many, Condition(ConditionKind.BUS_SILENT, "b1", "silent")])

    assert len(conditions.listed) == MAX_PER_KIND + 1
    assert conditions.counts == {
        ConditionKind.PEER_LOST: MAX_PER_KIND + 7,
        ConditionKind.BUS_SILENT: 1,
    }


def test_conditions_that_the_health_tells_can_be_left_out() -> None:
    """A reader of both says them once."""
    silent = Condition(ConditionKind.BUS_SILENT, "b1", "silent")

    assert Conditions.of([silent, lost()]).beside_health() == (lost(),)
