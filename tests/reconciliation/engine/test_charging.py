"""Escaped traffic counts for its groups, and the gate gets the rest of their limits."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Rates, Traffic
from coordinator.reconciliation.engine.account import Rate
from coordinator.reconciliation.engine.charging import Charges

SECOND_NS = NANOS_PER_SECOND
PUBLISH, DISPATCH = MonitoringClass.PUBLISH, MonitoringClass.DISPATCH


@pytest.mark.parametrize(
    ("limit", "rate", "left"),
    [(500, 200.0, 300), (500, 199.2, 300), (150, 200.0, 0), (0, 200.0, 0), (None, 200.0, None)],
)
def test_the_gates_part_is_the_limit_less_the_charge(
    limit: int | None, rate: float, left: int | None
) -> None:
    """Never below 0; no limit stays none. Dispatch is not charged."""
    charges = Charges()
    charges.set_rates({"g": Rate(rate, rate)})
    assert charges.set_limits("g", Rates(limit, limit, 7, 8)) == Rates(left, left, 7, 8)
    assert charges.set_limits("other", Rates(limit)) == Rates(limit)


def test_only_groups_whose_charge_changed_need_new_limits() -> None:
    """A charge that ends is a change; a group without limits needs none."""
    charges = Charges()
    charges.set_limits("a", Rates(9))
    charges.set_limits("b", Rates(9))
    assert charges.set_rates({"a": Rate(1), "b": Rate(2), "c": Rate(1)}) == {"a", "b"}
    assert charges.gate_part("b") == Rates(7)
    assert charges.set_rates({"a": Rate(1), "b": Rate(3)}) == {"b"}
    assert charges.set_rates({}) == {"a", "b"}


def test_counts_grow_by_the_charge_of_the_time_since() -> None:
    """No message is lost to rounding."""
    charges = Charges()
    charges.set_rates({"g": Rate(200.0, 20_000.0)})
    assert charges.charge([], 0)[0].messages == 0
    counts = [charges.charge([], step * SECOND_NS // 30)[0] for step in range(1, 91)]
    assert sum(count.messages for count in counts) in (599, 600)
    assert {count.messages for count in counts} <= {6, 7}
    assert sum(count.bytes for count in counts) in (59_999, 60_000)


def test_no_more_than_the_limit_is_charged() -> None:
    """A broker that reports twice its limit would be distrusted, and the gate has given all it can."""
    charges = Charges()
    charges.set_rates({"g": Rate(900.0, 900.0)})
    charges.set_limits("g", Rates(publish_messages=100))
    charges.charge([], 0)
    (traffic,) = charges.charge([], SECOND_NS)
    assert (traffic.messages, traffic.bytes) == (100, 900)
    assert (traffic.messages_held_ns, traffic.bytes_held_ns) == (SECOND_NS, 0)
    charges.remove_limits("g")
    assert charges.charge([], 2 * SECOND_NS)[0].messages == 900


def test_the_gates_counts_stay_beside_the_charge() -> None:
    """Waiting, participants and dispatch as they are."""
    charges = Charges()
    charges.set_rates({"g": Rate(10.0)})
    charges.charge([], 0)
    own = Traffic("g", PUBLISH, 5, 50, 7, 8, 2, 1)
    sent = Traffic("g", DISPATCH, 9)
    other = Traffic("h", PUBLISH, 1)
    found = charges.charge([own, sent, other], SECOND_NS)
    assert found == (own._replace(messages=15), sent, other)


def test_a_group_without_a_producer_at_the_gate_takes_part_while_it_is_charged() -> None:
    """A last report says that it takes part no longer, or its share would never be free."""
    charges = Charges()
    charges.set_rates({"g": Rate(10.0)})
    assert charges.charge([], 0) == (Traffic("g", PUBLISH, participants=1),)
    charges.set_rates({})
    assert charges.charge([], SECOND_NS) == (Traffic("g", PUBLISH),)
    assert charges.charge([], 2 * SECOND_NS) == ()


def test_a_group_with_producers_is_left_to_the_gate_when_the_charge_ends() -> None:
    """It is counted anyway."""
    charges = Charges()
    charges.set_rates({"g": Rate(10.0)})
    charges.charge([], 0)
    charges.set_rates({})
    own = Traffic("g", PUBLISH, 1, participants=3)
    assert charges.charge([own], SECOND_NS) == (own,)
