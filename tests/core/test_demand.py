"""The demand estimate: what a broker would admit without its limit."""

from coordinator.core.demand import DemandEstimate
from coordinator.core.settings import CoreSettings


def estimate() -> DemandEstimate:
    """An estimate with 2 % headroom that has seen nothing yet."""
    return DemandEstimate(CoreSettings(broker="b1", headroom_permille=20))


def test_a_saturated_broker_wants_more_than_anybody_can_tell() -> None:
    """Held for nearly all of the time with its limit used up: unbounded."""
    demand = estimate()
    demand.observe(990, held_permille=950, limit=1_000)

    assert demand.demand is None


def test_waiting_below_the_limit_is_no_demand() -> None:
    """Bursts wait now and then, or all the time, although 800 of 1,000 are enough for them."""
    demand = estimate()
    demand.observe(800, held_permille=950, limit=1_000)

    assert demand.demand == 816


def test_a_broker_that_was_held_now_and_then_at_its_limit_wants_a_little_more() -> None:
    """Limit used up, held for 30 % of the time: 30 % more than it admitted, and headroom."""
    demand = estimate()
    demand.observe(1_000, held_permille=300, limit=1_000)

    assert demand.demand == 1_326


def test_an_unheld_broker_wants_what_it_admits_and_headroom() -> None:
    """2 % above the admitted rate, rounded up, with a limit or without."""
    demand = estimate()
    demand.observe(1_000, held_permille=0, limit=None)
    assert demand.demand == 1_020
    few = estimate()
    few.observe(3, held_permille=0, limit=1_000)
    assert few.demand == 4


def test_a_rise_is_followed_at_once() -> None:
    """More was admitted than was expected: the estimate is the new rate."""
    demand = estimate()
    demand.observe(1_000, held_permille=0, limit=9_000)
    demand.observe(2_000, held_permille=0, limit=9_000)

    assert demand.demand == 2_040


def test_a_collapse_is_followed_at_once() -> None:
    """A quarter less is no noise: what is not used is free for others in the same round."""
    demand = estimate()
    demand.observe(1_000, held_permille=0, limit=9_000)
    demand.observe(500, held_permille=0, limit=9_000)

    assert demand.demand == 510


def test_noise_lowers_the_estimate_slowly() -> None:
    """A little less is noise: the estimate goes down by 2 % a round, not to the rate."""
    demand = estimate()
    demand.observe(1_000, held_permille=0, limit=9_000)
    demand.observe(940, held_permille=0, limit=9_000)

    assert demand.demand == 999


def test_a_constant_demand_is_a_fixed_point() -> None:
    """The same rate round after round gives the same estimate: limits do not move."""
    demand = estimate()
    demand.observe(700, held_permille=0, limit=9_000)
    first = demand.demand
    for _ in range(100):
        demand.observe(700, held_permille=0, limit=first)

    assert demand.demand == first


def test_headroom_learns_from_a_demand_that_was_taken_too_low() -> None:
    """Each false alarm doubles the room that bursts get, up to half; calm shrinks it again."""
    demand = estimate()
    seen = []
    for _ in range(8):
        demand.observe(1_000, held_permille=0, limit=9_000)
        seen.append(demand.demand)
        demand.saturate()
    demand.observe(1_000, held_permille=0, limit=9_000)
    for _ in range(600):
        demand.observe(1_000, held_permille=0, limit=9_000)

    assert seen[:4] == [1_020, 1_040, 1_080, 1_160]
    assert max(filter(None, seen)) <= 1_500
    assert demand.demand == 1_020
