"""The demo's story without gates in simulated time: what brokers make of what is written."""

from __future__ import annotations

from collections import Counter

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.entries import NOTHING
from coordinator.simulation.native_broker import NativeBroker
from tests.simulation.native_story import GROUP, LIMIT, NativeStory

pytestmark = pytest.mark.slow

SEEDS = (1, 2, *(pytest.param(seed, marks=pytest.mark.verify) for seed in (3, 4)))
"""Two are played in every proof, and all of them in `make verify`."""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_act_settles_within_two_seconds_and_holds_the_limit(seed: int) -> None:
    """Whenever brokers compute and report, and whatever happens at the same moment.

    The errors are those of a window of ten seconds that cuts the lumps of two brokers.
    """
    _, figures = NativeStory(seed).play()

    for act in figures.acts:
        assert act.settle_s is not None, act
        assert act.settle_s <= 1.5, act
        assert act.jain >= 0.999, act
        assert act.min_share >= 0.97, act
        assert abs(act.error) <= 0.015, act
        assert act.highest_round <= 0.2, act
    assert figures.reclaim_s is not None
    assert figures.reclaim_s <= 6.0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_entry_of_a_dead_broker_is_gone_everywhere_even_if_it_served_the_topic(
    seed: int,
) -> None:
    """Brokers and sidecars find the topic again one after the other, after up to 13 s."""
    _, figures = NativeStory(seed, owner_dies=True, acts=5).play()

    killed = figures.acts[-1]
    assert abs(killed.error) <= 0.015, killed
    assert killed.min_share >= 0.98, killed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_broker_that_stands_still_for_a_moment_moves_no_limit(seed: int) -> None:
    """Its clients wait meanwhile, which a poll cannot tell from clients that want less."""
    story = NativeStory(seed, acts=2, stalls=True)

    recording, _ = story.play()

    joined = recording.acts[-1]
    calm_s = joined.known_s + 3.0, joined.ended_s
    moved = [change for change in story.limits_set if calm_s[0] <= change.at_s <= calm_s[1]]
    assert not moved


@pytest.mark.parametrize("seed", SEEDS)
def test_a_broker_whose_sidecar_has_died_keeps_its_part(seed: int) -> None:
    """A steady broker reports once in five intervals only; another sidecar writes for it all the time.

    A report that comes just before the broker computes its quotas takes a third of one interval away.
    """
    _, figures = NativeStory(seed, acts=2, sidecar_dies=True).play()

    after = figures.acts[-1]
    assert after.min_share >= 0.96, after


@pytest.mark.parametrize("seed", SEEDS)
def test_quotas_are_parts_whenever_limits_move(seed: int) -> None:
    """A rest that was written before another sidecar's entry was heard would stretch a quota."""
    story = NativeStory(seed, acts=5)
    wrong: Counter[str] = Counter()

    def check(broker: NativeBroker) -> None:
        entry = broker.table.get(broker.name, {}).get(GROUP, NOTHING).messages
        quota = broker.quotas.get(GROUP, (None, None))[0]
        is_under_way = story.topic.schedule.now_ns < 16 * NANOS_PER_SECOND
        if quota is not None and not is_under_way and abs(2 * quota - entry) > LIMIT // 100:
            wrong[broker.name] += 1

    story.computed = check
    story.play()

    assert not wrong
