"""The demand estimate: what a broker would admit without its limit."""

from coordinator.core.demand import estimate
from coordinator.core.settings import CoreSettings

SETTINGS = CoreSettings(broker="b1")


def test_a_saturated_broker_wants_more_than_anybody_can_tell() -> None:
    """Held for nearly all of the time: unbounded."""
    assert estimate(1_000, 950, previous=1_000, settings=SETTINGS) is None


def test_a_broker_that_was_held_now_and_then_wants_a_little_more() -> None:
    """Held for 30 % of the time: 30 % more than it admitted, and headroom."""
    assert estimate(1_000, 300, previous=1_000, settings=SETTINGS) == 1_326


def test_an_unheld_broker_wants_what_it_admits_and_headroom() -> None:
    """2 % above the admitted rate, rounded up."""
    assert estimate(1_000, 0, previous=None, settings=SETTINGS) == 1_020
    assert estimate(3, 0, previous=None, settings=SETTINGS) == 4


def test_a_rise_is_followed_at_once() -> None:
    """More was admitted than was expected: the estimate is the new rate."""
    assert estimate(2_000, 0, previous=1_020, settings=SETTINGS) == 2_040


def test_a_collapse_is_followed_at_once() -> None:
    """A quarter less is no noise: what is not used is free for others in the same round."""
    assert estimate(500, 0, previous=1_020, settings=SETTINGS) == 510


def test_noise_lowers_the_estimate_slowly() -> None:
    """A little less is noise: the estimate goes down by 2 % a round, not to the rate."""
    assert estimate(940, 0, previous=1_020, settings=SETTINGS) == 999


def test_a_constant_demand_is_a_fixed_point() -> None:
    """The same rate round after round gives the same estimate: limits do not move."""
    first = estimate(700, 0, previous=None, settings=SETTINGS)

    assert estimate(700, 0, previous=first, settings=SETTINGS) == first
