"""The documented peaks of a managed Pulsar's cluster limit (its question 2), as tests.

"The throttling threshold of each node is the remaining threshold of the current cluster": five brokers
use 150 each of 1,000, so each may pass 150 + 1000 - 750 = 400, and all together 2,000. And "the current
request, even if it has exceeded the threshold, will still be processed". Both come about here under the
service's law and limit, and neither under ours.
"""

from __future__ import annotations

from functools import partial

import pytest

from coordinator.core.limiting.windows import SoftWindow
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.simulation.experiment import Figures, measure
from coordinator.simulation.stage import WARM_UP_S, Parameters, Stage
from coordinator.simulation.valve import Valve

LIMIT = 1_000
BROKERS = 5
EACH = 150


def surge(law: str, policy: str, seed: int = 0) -> tuple[Figures, int]:
    """Five brokers with 150 each of 1,000, then all want everything; the sum of limits before that."""
    stage = Stage(Parameters(brokers=BROKERS, law=law, policy=policy, seed=seed), seconds=30)
    assert stage.limit == LIMIT
    stage.start([EACH] * BROKERS)
    stage.event(WARM_UP_S, partial(stage.want_each, stage.all_of_it()))
    recording = stage.world.run()
    (record,) = recording.records.values()
    before = sum(track.limits[WARM_UP_S - 1] or 0 for track in record.tracks.values())
    (figures,) = measure(stage, recording)
    return figures, before


@pytest.mark.shows("service-cluster/remaining")
def test_situation_1_under_the_law_of_the_service_the_local_limits_add_up_to_2000() -> None:
    """The traffic exceeds the limit when all brokers use theirs at once."""
    figures, sum_of_limits = surge("tdmq", "eager")
    assert sum_of_limits == 2 * LIMIT
    assert figures.peak_overshoot > 0.05


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_situation_1_does_not_occur_with_balanced_or_strict(policy: str, seed: int) -> None:
    """The local limits never add up to more than the limit; nor does what passes, but for a burst."""
    figures, sum_of_limits = surge("max-min", policy, seed)
    assert sum_of_limits <= LIMIT
    assert figures.max_sum_limits <= 1.0
    assert figures.peak_overshoot <= 0.05


@pytest.mark.shows("service-cluster/in-flight")
def test_situation_2_requests_in_flight_exceed_a_limit_that_is_checked_afterwards() -> None:
    """500 requests under way at the moment when 100 are allowed: all of them pass."""
    soft = SoftWindow(rate=100, now_ns=0)
    passed = 0
    for _ in range(500):
        if soft.wait_ns(1, 0) == 0:
            soft.consume(1, 0)
            passed += 1
    assert passed == 500


@pytest.mark.parametrize("requests", [500, 50_000])
def test_situation_2_does_not_occur_where_each_request_needs_its_token_first(requests: int) -> None:
    """However many are under way at once, no more than the burst passes."""
    valve = Valve(100, 0)
    now_ns = NANOS_PER_SECOND
    assert min(requests, valve.fits(1, now_ns)) <= 100 // 10 + 1
