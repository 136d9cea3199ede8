"""Scenarios in which what clients want changes: S1-S3, S8-S12, S22, S25.

Rates are given in parts of ``C/N``, so that they mean the same for every number of brokers; with the
default of five brokers and 1,000 per second they are those of the papers and products they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.simulation.stage import WARM_UP_S, Parameters, Stage
from coordinator.simulation.traffic import OnOff, zipf


def skewed_start(parameters: Parameters) -> Stage:
    """S1: limits stand at 80/20 when all brokers come to want everything."""
    stage = Stage(parameters, seconds=50)
    stage.start(stage.skewed())
    stage.event(WARM_UP_S, partial(stage.want_each, stage.all_of_it()))
    return stage


def mixed_demand(parameters: Parameters) -> Stage:
    """S2: all brokers saturated, then 50/150/400/900/2000."""
    stage = Stage(parameters, seconds=50)
    equal = stage.limit // parameters.brokers
    mixed = [round(equal * (0.25, 0.75, 2.0, 4.5, 10.0)[i % 5]) for i in range(parameters.brokers)]
    stage.start(stage.all_of_it())
    stage.event(WARM_UP_S, partial(stage.want_each, mixed))
    return stage


def step_change(parameters: Parameters) -> Stage:
    """S3: one broker's demand steps from 100 to 900 and back, the others are saturated."""
    stage = Stage(parameters, seconds=80)
    low = stage.limit // parameters.brokers // 2
    stage.start([low, *stage.all_of_it()[1:]])
    stage.event(WARM_UP_S, partial(stage.want, stage.names[0], low * 9))
    stage.event(50, partial(stage.want, stage.names[0], low))
    return stage


def skewed_demand(parameters: Parameters) -> Stage:
    """S8: Zipf 1.0, Zipf 1.5, three against seven flows by topic, 10 -> 4 servers every 30 s."""
    stage = Stage(parameters, seconds=230)
    twice, n = 2 * stage.limit, parameters.brokers
    few = -(-n * 4 // 10)
    stage.start(stage.all_of_it())
    stage.event(WARM_UP_S, partial(stage.want_each, zipf(twice, n, 1.0)))
    stage.event(50, partial(stage.want_each, zipf(twice, n, 1.5)))
    stage.event(80, partial(_flows, stage, (3, 7)), partial(stage.define, weights="topics"))
    stage.event(110, partial(stage.want_each, stage.all_of_it()), stage.define)
    for second in (140, 200):
        stage.event(second, partial(stage.want_each, [stage.limit] * few + [0] * (n - few)))
    stage.event(170, partial(stage.want_each, stage.all_of_it()))
    return stage


def rotating_bursts(parameters: Parameters) -> Stage:
    """S9: all on and off together every 5 s for a minute, then on for 6 s and off for 6 s in turn."""
    stage = Stage(parameters, seconds=140)
    n = parameters.brokers
    together = OnOff(
        high=3 * stage.limit // n, low=0, on_ns=5 * NANOS_PER_SECOND, off_ns=5 * NANOS_PER_SECOND
    )
    stage.start(stage.all_of_it())
    for place, name in enumerate(stage.names):
        in_turn = OnOff(
            high=stage.limit,
            low=0,
            on_ns=6 * NANOS_PER_SECOND,
            off_ns=6 * NANOS_PER_SECOND,
            phase_ns=place * 12 * NANOS_PER_SECOND // n,
        )
        stage.at(WARM_UP_S, partial(stage.load, name, together))
        stage.at(80, partial(stage.load, name, in_turn))
    return stage


def flash_crowd(parameters: Parameters) -> Stage:
    """S10: all brokers but one jump to fifteen times their demand within one round, and back."""
    stage = Stage(parameters, seconds=90)
    first, rest = stage.limit // 2, parameters.brokers - 1
    base = max(1, 4 * stage.limit // 10 // max(1, rest))
    stage.start([first, *([base] * rest)])
    stage.event(WARM_UP_S, partial(stage.want_each, [first, *([15 * base] * rest)]))
    stage.event(45, partial(stage.want_each, [first, *([base] * rest)]))
    stage.event(65, partial(stage.want_each, [15 * first, *([15 * base] * rest)]))
    return stage


def cold_start(parameters: Parameters) -> Stage:
    """S11: all brokers start at once, saturated, and know nothing of each other."""
    stage = Stage(parameters, seconds=30, measured_from=0)
    stage.start(stage.all_of_it())
    stage.event(0)
    return stage


def return_from_idle(parameters: Parameters) -> Stage:
    """S12: one broker idle for 20 rounds, then saturated; once more with its clients disconnected."""
    stage = Stage(parameters, seconds=110)
    stage.start(stage.all_of_it())
    name = stage.names[0]
    stage.event(WARM_UP_S, partial(stage.want, name, 0))
    stage.event(40, partial(stage.want, name, stage.limit))
    stage.event(60, partial(stage.want, name, None))
    stage.event(80, partial(stage.want, name, stage.limit))
    return stage


def hidden_demand(parameters: Parameters) -> Stage:
    """S22: a throttled broker wants ten times what it gets, then nearly nothing."""
    stage = Stage(parameters, seconds=110)
    equal = stage.limit // parameters.brokers
    modest = [equal * 8 // 10] * parameters.brokers
    hidden = [10 * equal, *modest[1:]]
    stage.start(modest)
    stage.event(WARM_UP_S, partial(stage.want_each, hidden))
    stage.event(50, partial(stage.want, stage.names[0], equal // 2))
    stage.event(80, partial(stage.want_each, stage.all_of_it()))
    return stage


def saturated(parameters: Parameters) -> Stage:
    """S25: five minutes saturated, as WSO2 judges its gateways, then a minute of 90 % of the limit."""
    # Arrivals are Poisson's: with even ones nothing would wait below the limit.
    stage = Stage(parameters, seconds=WARM_UP_S + 360)
    stage.start(stage.all_of_it(), poisson=True)
    stage.event(WARM_UP_S)
    below = zipf(9 * stage.limit // 10, parameters.brokers, 1.0)
    stage.event(WARM_UP_S + 300, partial(stage.want_each, below))
    return stage


def _flows(stage: Stage, numbers: Sequence[int]) -> None:
    """The first brokers serve these numbers of flows, each a topic that wants the whole limit."""
    stage.want_each([0] * len(stage.names))
    for name, flows in zip(stage.names, numbers, strict=False):
        stage.want(name, flows * stage.limit, topics=flows)
