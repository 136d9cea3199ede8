"""The demand estimate: what a broker would admit without its limit, at the most."""

import random
from collections.abc import Iterable
from itertools import accumulate, pairwise

import pytest

from coordinator.core.demand.estimator import PROBE, STRONG, DemandEstimate
from coordinator.core.model import Dimension
from coordinator.core.settings import CoreSettings
from coordinator.insight.model.explain import explain
from tests.core.cluster import GROUP, Cluster


def estimate() -> DemandEstimate:
    """An estimate with 2 % headroom that has seen nothing yet."""
    return DemandEstimate(CoreSettings(broker="b1", headroom_permille=20))


def observe(demand: DemandEstimate, rate: int, held: int = 0, limit: int | None = 9_000) -> None:
    """A round of one second."""
    demand.observe(rate, held, held, limit, messages=rate, little=100)


def followed(
    demand: DemandEstimate, rates: Iterable[int], limit: int | None = 9_000
) -> list[int | None]:
    """Return the estimate after these rounds, in which no client waited."""
    estimates = []
    for rate in rates:
        observe(demand, rate, limit=limit)
        estimates.append(demand.demand)
    return estimates


def moves(estimates: list[int | None]) -> int:
    """Return how often the estimate has moved."""
    return sum(before != after for before, after in pairwise(estimates))


FREE = (0, 9_000)
"""No client waited, at a limit far above."""


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param([(990, 950, 1_000, None)], id="saturated: unbounded"),
        # Not half of the cluster's limit, but eight times what is known.
        pytest.param(
            [
                (4, *FREE, 5),
                (5, 1_000, 5, PROBE * 5),
                (5, 1_000, 5, PROBE * 5),
                (40, 1_000, 40, PROBE * 40),
            ],
            id="a few messages: a bounded probe",
        ),
        # Bursts wait for most of the time although 800 of 1,000 are enough for them.
        pytest.param([(800, 800, 1_000, 816)], id="waiting below the limit is no demand"),
        # Producers waited all the time, and tokens were lost.
        pytest.param(
            [(200, 1_000, 200, None), (94, 1_000, 200, None), (0, 1_000, 200, None)],
            id="a gate that stands still does not want less",
        ),
        # It is what it was, or what passed if that is more.
        pytest.param(
            [(100, 0, 200, 102), (40, 1_000, 200, 102), (150, 1_000, 200, 153)],
            id="a known demand stays known while the gate stands still",
        ),
        pytest.param([(20, 1_000, 40, None)], id="a newcomer whose gate stands still: unbounded"),
        # It sent at least 70 % of what it wants, and headroom.
        pytest.param([(1_000, 300, 1_000, 1_458)], id="held for 30 % of the time"),
        pytest.param([(1_000, 890, 1_000, 2 * 1_020)], id="held: at most twice its rate"),
        # 2 % above the admitted rate, rounded up.
        pytest.param([(1_000, 0, None, 1_020)], id="unheld without a limit"),
        pytest.param([(3, 0, 1_000, 4)], id="unheld with a limit"),
        pytest.param([(1_000, *FREE, 1_020), (2_000, *FREE, 2_040)], id="a rise"),
        # A quarter less is no noise: what is not used is free for others in the same round.
        pytest.param([(1_000, *FREE, 1_020), (500, *FREE, 510)], id="a collapse"),
        # Of 64 messages 40 may come in another round, at random; 31 are fewer wanted.
        pytest.param(
            [(64, *FREE, 66), (40, *FREE, 66), (31, *FREE, 32)], id="chance is no collapse"
        ),
        # Held half of the time it was taken for twice as much; a calm round shows what it is.
        pytest.param(
            [(1_000, 500, 1_000, 2_040), (1_000, 0, 2_040, 1_020)], id="a probe is no chance"
        ),
    ],
)
def test_the_demand_follows_what_passed_and_how_long_clients_waited(
    rounds: list[tuple[int, int, int | None, int | None]],
) -> None:
    """Rate, thousandths of the time held, limit, and the demand that they show, round by round."""
    demand = estimate()
    for rate, held, limit, expected in rounds:
        observe(demand, rate, held=held, limit=limit)
        assert demand.demand == expected


def test_of_a_newcomer_nothing_is_known() -> None:
    """However few messages its reserve lets pass: it has to have its fair share within a round."""
    demand = estimate()

    assert demand.believes(0)
    assert demand.saturate(1, messages=0)
    assert demand.demand is None


def test_a_newcomer_that_began_late_in_a_round_is_one_in_the_next() -> None:
    """The round in which it began shows one message and little waiting: that is no demand of 1."""
    demand = estimate()
    observe(demand, 1, held=49, limit=1)

    assert demand.believes(0)
    assert demand.saturate(1, messages=1)
    assert demand.demand is None


def test_who_was_idle_is_a_newcomer() -> None:
    """However well its demand was known before."""
    demand = estimate()
    observe(demand, 100)
    observe(demand, 0)
    observe(demand, 1, held=49, limit=1)

    assert demand.saturate(1, messages=1)
    assert demand.demand is None


def test_what_whole_rounds_say_is_not_overturned_by_a_few_messages() -> None:
    """A few counts with waiting are news of a newcomer, or if many messages passed meanwhile."""
    demand = estimate()
    observe(demand, 100)

    assert not demand.believes(STRONG - 1)
    assert demand.believes(STRONG)


@pytest.mark.parametrize(("passed", "demand"), [(STRONG - 1, PROBE * 200), (STRONG, None)])
def test_a_hundred_messages_under_throttling_prove_demand(passed: int, demand: int | None) -> None:
    """With fewer, a known demand that turns out to be throttled is probed within bounds."""
    known = estimate()
    observe(known, 90)
    known.saturate(200, passed)

    assert known.demand == demand


@pytest.mark.parametrize(
    ("known", "rate", "limit", "probe"), [(4, 4, 8, 8 * PROBE), (500, 400, 600, None)]
)
def test_a_gate_that_never_uses_its_limit_up_is_probed_after_three_rounds(
    known: int, rate: int, limit: int, probe: int | None
) -> None:
    """It loses tokens in every round; without a probe its demand would stay as it was for good."""
    demand = estimate()
    followed(demand, [known])
    before = demand.demand
    for _ in range(2):
        observe(demand, rate, held=1_000, limit=limit)
        assert demand.demand == before
    observe(demand, rate, held=1_000, limit=limit)

    assert demand.demand == probe


def test_a_message_now_and_then_is_never_idle() -> None:
    """One a second at random moments: in every third round there is none, and it stays known; seed 3."""
    dice = random.Random(3)
    rates = []
    for _ in range(1_000):
        moments = accumulate(dice.expovariate(1) for _ in range(20))
        rates.append(sum(moment < 1 for moment in moments))
    estimates = followed(estimate(), rates, limit=10)

    assert None not in estimates, "seed 3"
    assert set(estimates[10:]) <= set(range(1, 10)), "seed 3"
    assert moves(estimates[30:]) < 60, "seed 3"


def test_who_sent_little_is_idle_after_half_a_minute_without() -> None:
    """The others need not keep a share for it, and it comes back as a newcomer."""
    demand = estimate()
    observe(demand, 2)
    for _ in range(29):
        observe(demand, 0)
    assert demand.demand == 3
    assert not demand.believes(STRONG - 1)
    observe(demand, 0)

    assert demand.demand == 0
    assert demand.saturate(1, messages=0)
    assert demand.demand is None


@pytest.mark.parametrize(("passed", "expected"), [(15, 21), (30, 31)])
def test_after_a_probe_that_was_enough_the_demand_is_what_it_was(
    passed: int, expected: int
) -> None:
    """The traffic that used the room does not lower it; more traffic raises it."""
    demand = estimate()
    observe(demand, 20)
    observe(demand, 21, held=1_000, limit=21)
    assert demand.demand == PROBE * 21
    observe(demand, passed, limit=168)

    assert demand.demand is not None
    assert expected <= demand.demand <= expected * 1.25


def test_less_is_followed_once_a_window_and_to_its_highest() -> None:
    """Five rounds later the estimate is the peak of those five."""
    demand = estimate()
    observe(demand, 1_000)

    seen = followed(demand, (940, 950, 930, 920, 910))
    assert seen == [1_020, 1_020, 1_020, 1_020, 969]


def test_a_little_less_is_noise_for_ever() -> None:
    """Changes within 2 % move no estimate and so no limit."""
    demand = estimate()
    observe(demand, 1_000)
    for _ in range(100):
        observe(demand, 990)

    assert demand.demand == 1_020


def test_a_constant_demand_is_a_fixed_point() -> None:
    """The same rate round after round gives the same estimate: limits do not move."""
    demand = estimate()
    observe(demand, 700)
    first = demand.demand
    for _ in range(100):
        observe(demand, 700, limit=first)

    assert demand.demand == first


def test_noise_moves_the_estimate_less_than_once_in_four_rounds() -> None:
    """A thousand a second at random moments, +-3 %, and room for all; seed 7."""
    rng = random.Random(7)
    estimates = followed(estimate(), [round(rng.gauss(1_000, 32)) for _ in range(1_000)])

    assert moves([0, *estimates]) < 250, "seed 7"


def test_headroom_learns_from_a_demand_that_was_taken_too_low() -> None:
    """Each mistake doubles the room that bursts get, up to a quarter; long calm shrinks it again."""
    demand = estimate()
    seen = []
    for _ in range(8):
        observe(demand, 1_000)
        seen.append(demand.demand)
        demand.saturate(1_020, messages=1_020)
    for _ in range(900):
        observe(demand, 1_000)
    soon = demand.demand
    for _ in range(5_000):
        observe(demand, 1_000)

    assert seen[:4] == [1_020, 1_040, 1_080, 1_160]
    assert (max(filter(None, seen)), soon) == (1_250, 1_250)
    assert demand.demand is not None
    assert demand.demand <= 1_040


def test_explain_tells_what_a_throttled_broker_wants_at_the_least() -> None:
    """The least is the admitted rate; the most is unknown."""
    cluster = Cluster(limit=3000)
    cluster.settle(5000, 300, seconds=5)
    state = cluster.states["b1"]
    throttled, calm = explain(state, GROUP, Dimension.PUBLISH_MESSAGES, None, cluster.now_ns).wants

    assert (throttled.wants, throttled.wants_at_least) == (None, throttled.admitted)
    assert calm.wants == calm.wants_at_least


def test_a_slow_broker_that_waits_by_chance_takes_little_from_the_others() -> None:
    """A few messages wait for a token; the broker that can use the limit keeps 90 % of it."""
    cluster = Cluster(limit=1000)
    cluster.start("big", demand=5000)
    cluster.start("small", demand=4)
    cluster.run(10)
    lowest = 1000
    for _ in range(10):
        cluster.want("small", 40)
        cluster.run(0.2)
        cluster.want("small", 4)
        cluster.run(2.8)
        lowest = min(lowest, cluster.limit_of("big"))

    assert lowest >= 900
