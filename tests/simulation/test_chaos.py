"""Everything at once, at random, and afterwards all must be well again."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from coordinator.core.lifecycle import Lifecycle
from coordinator.simulation import metrics
from coordinator.simulation.experiment import series_of
from coordinator.simulation.stage import GROUP, Parameters, Stage
from tests.simulation.runs import distrusted

SECOND_NS = 1_000_000_000
CHAOS_FROM, CHAOS_TO, SECONDS = 10, 90, 150
RECOVERY_ROUNDS = 30


def _lossy(stage: Stage, rng: random.Random, second: float) -> None:
    conditions = stage.world.network.conditions
    stage.at(second, partial(setattr, conditions, "loss", rng.choice((0.1, 0.5, 0.9))))
    stage.at(second, partial(setattr, conditions, "burst", rng.choice((1, 5))))


def _messy(stage: Stage, rng: random.Random, second: float) -> None:
    conditions = stage.world.network.conditions
    stage.at(second, partial(setattr, conditions, "duplicate", 0.2))
    stage.at(second, partial(setattr, conditions, "reorder", 0.2))
    stage.at(second, partial(setattr, conditions, "delay_ns", rng.randrange(4 * SECOND_NS)))


def _split(stage: Stage, rng: random.Random, second: float) -> None:
    one = rng.sample(stage.names, rng.randrange(1, len(stage.names)))
    other = [name for name in stage.names if name not in one]
    stage.at(second, partial(stage.world.network.partition, one, other))
    stage.at(second + rng.uniform(1, 20), stage.world.network.heal)


def _no_quorum(stage: Stage, rng: random.Random, second: float) -> None:
    stage.at(second, stage.world.zookeeper.lose_quorum)
    stage.at(second + rng.uniform(0.1, 12), stage.world.zookeeper.regain_quorum)


def _cut_session(stage: Stage, rng: random.Random, second: float) -> None:
    name = rng.choice(stage.names)
    zookeeper, hosts = stage.world.zookeeper, stage.world.hosts

    def act(how: Callable[..., None]) -> None:
        if name in hosts:
            how(hosts[name].session)

    stage.at(second, partial(act, zookeeper.cut))
    stage.at(second + rng.uniform(0.1, 9), partial(act, zookeeper.restore))


def _restart(stage: Stage, rng: random.Random, second: float) -> None:
    name, graceful = rng.choice(stage.names), rng.random() < 0.5
    down_ns = round(rng.uniform(0.1, 8) * SECOND_NS)

    def act() -> None:
        if name in stage.world.hosts:
            stage.world.restart(name, down_ns, graceful=graceful)

    stage.at(second, act)


def _pause(stage: Stage, rng: random.Random, second: float) -> None:
    name, length_ns = rng.choice(stage.names), round(rng.uniform(0.1, 8) * SECOND_NS)

    def act() -> None:
        if name in stage.world.hosts:
            stage.world.hosts[name].pause(length_ns)

    stage.at(second, act)


def _other_limit(stage: Stage, rng: random.Random, second: float) -> None:
    stage.at(second, partial(stage.define, rng.choice((0, 7, 500, 1_000, 3_000))))


def _other_demand(stage: Stage, rng: random.Random, second: float) -> None:
    rates = [rng.choice((None, 0, 1, 50, 200, 1_000)) for _ in stage.names]
    stage.at(second, partial(stage.want_each, rates))


MISHAPS = (
    _lossy, _messy, _split, _no_quorum, _cut_session, _restart, _pause, _other_limit, _other_demand,
)  # fmt: skip


def chaos(seed: int, policy: str = "balanced") -> Stage:
    """Eighty seconds of mishaps, then a calm network, a limit of 1,000 and saturated clients."""
    stage = Stage(Parameters(seed=seed, policy=policy), seconds=SECONDS)
    stage.world.watch.readers_per_step = len(stage.names)
    rng = stage.world.rng
    stage.start(stage.all_of_it())
    second = float(CHAOS_FROM)
    while second < CHAOS_TO:
        rng.choice(MISHAPS)(stage, rng, second)
        second += rng.expovariate(0.5)
    conditions = stage.world.network.conditions
    for name, value in (
        ("loss", 0.0),
        ("duplicate", 0.0),
        ("reorder", 0.0),
        ("delay_ns", 2_000_000),
    ):
        stage.at(CHAOS_TO + 10, partial(setattr, conditions, name, value))
    stage.at(CHAOS_TO + 10, stage.world.network.heal, stage.define)
    stage.at(CHAOS_TO + 10, partial(stage.want_each, stage.all_of_it()))
    return stage


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_after_chaos_all_is_well_again(seed: int) -> None:
    """No core raises, no promise breaks, and within 30 rounds all are active with a fair share.

    No broker is taken for a liar.
    """
    stage = chaos(seed)

    record = stage.world.run().group(GROUP)

    states = {name: host.state.lifecycle for name, host in stage.world.hosts.items()}
    assert states == dict.fromkeys(stage.names, Lifecycle.ACTIVE)
    assert not distrusted(stage)
    series = series_of(record)
    settled = metrics.settle(series, CHAOS_TO + 10, SECONDS)
    assert settled is not None
    assert settled <= RECOVERY_ROUNDS
