"""Turns, against what brokers make of the entries: 32-bit floats and whole quotas, as in Pulsar."""

from __future__ import annotations

from fractions import Fraction

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Rates
from coordinator.native.engine.entries import NOTHING, Amounts, capacity_of, entry_of, record_of
from coordinator.native.engine.rest import rest
from coordinator.native.engine.turns import in_turn, takes_turns, used, whole_now, with_room
from tests.native.engine.test_entries import pulsars_quota

LIMITS = ((25, 25), (33, 33, 34), (17, 15, 18), (90, 10), (1, 49), (500, 300, 200))
CASES = [
    (each, interval)
    for each in LIMITS
    for interval in (1, 2, 5, 10)
    if sum(each) * interval <= 2_000
]


def passed(limits: tuple[int, ...], interval_s: int, turn: int) -> list[int]:
    """Return the messages that each of some saturated brokers lets pass in an interval."""
    whole = Rates(publish_messages=sum(limits))
    record = with_room(record_of(whole, interval_s), whole, interval_s)
    now_ns = turn * interval_s * NANOS_PER_SECOND
    entries = [
        in_turn(entry_of(Amounts(limit), interval_s), interval_s, now_ns).messages
        for limit in limits
    ]
    most, _ = used(whole, len(limits), interval_s)
    kept = rest(capacity_of(record, interval_s)[0], most, sum(entries), interval_s)
    quotas = [pulsars_quota(record.messages, each, sum(entries) + kept) for each in entries]
    assert sum(quotas) <= record.messages
    return [(interval_s + 1) * quota - 1 for quota in quotas]


@pytest.mark.parametrize(("limits", "interval_s"), CASES)
def test_a_small_limit_is_exact_over_the_turns(limits: tuple[int, ...], interval_s: int) -> None:
    """Each broker's mean is its limit, and no turn has more than a message a second beyond for each."""
    whole = sum(limits)
    turns = [passed(limits, interval_s, turn) for turn in range(10_000, 10_000 + 60)]
    for broker, limit in enumerate(limits):
        mean = sum(turn[broker] for turn in turns) / (len(turns) * interval_s)
        assert abs(mean - limit) <= max(0.01 * limit, 0.1), (limit, mean)
    mean = sum(map(sum, turns)) / (len(turns) * interval_s)
    assert abs(mean - whole) <= max(0.01 * whole, 0.1)
    assert max(map(sum, turns)) <= whole * interval_s + len(limits) * interval_s


def test_a_large_limit_takes_no_turns() -> None:
    """A limit in bytes alone takes none either; their records have no room for them."""
    for limits in (Rates(publish_messages=2_001), Rates(publish_bytes=9), Rates()):
        assert not takes_turns(limits, 1)
        record = record_of(limits, 1)
        assert with_room(record, limits, 1) == record
    assert used(Rates(publish_messages=2_002), 3, 1) == (2_022, None), (
        "room for a hundredth, which losses may add"
    )
    assert takes_turns(Rates(publish_messages=2_000), 1)
    assert not takes_turns(Rates(publish_messages=2_000), 2)


def test_a_broker_without_a_part_has_no_entry_in_any_turn() -> None:
    """Nothing stays nothing, and bytes take no turns."""
    assert in_turn(NOTHING, 1, 0) == NOTHING
    assert in_turn(Amounts(25, 999), 1, 0).bytes == 999


@pytest.mark.parametrize("rate", [Fraction(10, 3), Fraction(2, 3), Fraction(19, 2), 7])
@pytest.mark.parametrize("interval_s", [1, 5])
def test_whole_numbers_take_turns_for_a_fraction(rate: Fraction | int, interval_s: int) -> None:
    """The one below and the one above, and their mean is the rate."""
    turns = [
        whole_now(rate, interval_s, turn * interval_s * NANOS_PER_SECOND) for turn in range(60)
    ]

    assert sum(turns) == 60 * rate
    assert set(turns) <= {int(rate), int(rate) + 1}
