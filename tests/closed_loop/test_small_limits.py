"""Limits below one message per broker and second: the sum is met, and the right to publish goes round."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import pytest

from coordinator.core.events import ConnectionChanged, ConnectionState
from coordinator.core.model import Rate
from tests.closed_loop.loop import Loop
from tests.closed_loop.senders import Sender, late, steady

BROKERS = ("b0", "b1", "b2")
SETTLED_S, MINUTE_S, HOUR_S = 20, 60, 3_600
WINDOW = 32


def saturated(limit: Rate, policy: str = "balanced") -> Loop:
    """Three brokers that want more than a small limit, settled."""
    loop = Loop(limit=limit, policy=policy)
    loop.start_senders({broker: Sender(steady(100), WINDOW) for broker in BROKERS})
    loop.run(SETTLED_S)
    return loop


def counted(loop: Loop, seconds: float) -> dict[str, int]:
    """The messages that pass at each broker in this time."""
    before = loop.passed()
    loop.run(seconds)
    return {broker: now - before[broker] for broker, now in loop.passed().items()}


HALF = Fraction(1, 2)
PROVED = {
    (HALF, "balanced"),
    (HALF, "strict"),
    (1, "balanced"),
    (2, "balanced"),
    (29, "balanced"),
    (2, "eager"),
    (2, "strict"),
    (5, "strict"),
}
"""Limits and policies; other combinations are in `make verify`."""


@pytest.mark.parametrize(
    ("limit", "policy"),
    [
        pytest.param(*each, marks=() if each in PROVED else pytest.mark.verify)
        for each in product(
            (HALF, 1, 2, Fraction(5, 2), 4, 5, 16, 29, Fraction(301, 10)),
            ("balanced", "eager", "strict"),
        )
    ],
)
def test_a_minute_has_the_limits_messages_a_third_at_each_broker(limit: Rate, policy: str) -> None:
    """Each within one, so the sum is within three."""
    found = counted(saturated(limit, policy), MINUTE_S)

    assert all(abs(passed - limit * MINUTE_S / 3) <= 1 for passed in found.values()), found


@pytest.mark.parametrize("limit", [HALF, 1, 2])
def test_no_broker_waits_longer_than_its_turn(limit: Rate) -> None:
    """Three brokers at N/limit seconds each; a twentieth of a second more to see it."""
    loop = saturated(limit)
    passed_s: dict[str, list[float]] = {broker: [] for broker in BROKERS}
    before = loop.passed()
    for step in range(20 * MINUTE_S):
        loop.run(0.05)
        for broker, now in loop.passed().items():
            if now != before[broker]:
                passed_s[broker].append(step * 0.05)
        before = loop.passed()

    gaps_s = [later - former for times in passed_s.values() for former, later in pairwise(times)]
    assert max(gaps_s) <= 3 / limit + 0.051


@pytest.mark.parametrize(("partition_policy", "passes"), [("hold", 40), ("safe", 40), ("stop", 0)])
def test_fractions_are_kept_without_zookeeper_unless_nothing_may_pass(
    partition_policy: str, passes: int
) -> None:
    """As whole limits are."""
    loop = Loop(limit=2, partition_policy=partition_policy)
    loop.start_senders({broker: Sender(steady(100), WINDOW) for broker in BROKERS})
    loop.run(SETTLED_S)
    for broker in BROKERS:
        loop.send(broker, ConnectionChanged(ConnectionState.LOST))
    loop.run(1)
    found = counted(loop, MINUTE_S)

    assert all(abs(passed - passes) <= 1 for passed in found.values()), found


@pytest.mark.parametrize(("limit", "passes"), [(0, 0), (HALF, 10), (1, 20), (100, 40)])
def test_a_limit_that_changes_meanwhile_lowers_fractions_and_raises_none(
    limit: Rate, passes: int
) -> None:
    """A sidecar that cannot ask the others has no more than it had."""
    loop = saturated(2)
    for broker in BROKERS:
        loop.send(broker, ConnectionChanged(ConnectionState.LOST))
    loop.set_limit(limit)
    loop.run(1)
    found = counted(loop, MINUTE_S)

    assert all(abs(passed - passes) <= 1 for passed in found.values()), found


@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_a_limit_that_gets_another_fraction_is_met(policy: str) -> None:
    """The whole part stays, so nothing but the fraction tells the change."""
    loop = saturated(HALF, policy)
    loop.set_limit(Fraction(9, 10))
    loop.run(SETTLED_S)
    found = counted(loop, MINUTE_S)

    assert all(abs(passed - 18) <= 1 for passed in found.values()), found


def test_a_broker_beside_one_that_wants_nothing_has_all_of_a_fraction() -> None:
    """Thirty pass in a minute, of one in two seconds."""
    loop = Loop(limit=HALF)
    loop.start_senders(
        {"b0": Sender(steady(100), WINDOW), "b1": Sender(late(HOUR_S, steady(1)), WINDOW)}
    )
    loop.run(SETTLED_S)
    found = counted(loop, MINUTE_S)

    assert abs(found["b0"] - 30) <= 1


def test_a_broker_that_comes_has_its_turn_and_the_sum_stays() -> None:
    """While it is new, less than one message a second is beyond the limit at each."""
    loop = Loop(limit=2)
    senders = {broker: Sender(steady(100), WINDOW) for broker in BROKERS[:2]}
    senders["b2"] = Sender(late(SETTLED_S, steady(100)), WINDOW)
    loop.start_senders(senders)
    loop.run(SETTLED_S)
    before = counted(loop, 3)
    found = counted(loop, MINUTE_S)

    assert sum(before.values()) <= 2 * 3 + 3
    assert all(abs(passed - 40) <= 2 for passed in found.values()), found
