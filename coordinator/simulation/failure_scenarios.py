"""Scenarios in which something fails, comes or goes: S4-S7, S13-S19.

Where nothing else is said every broker is saturated, since only then a wrong share shows.
"""

from __future__ import annotations

from functools import partial

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.simulation.stage import WARM_UP_S, Parameters, Stage

_DOWN_NS = 1 * NANOS_PER_SECOND
_MOST_DELAY_ROUNDS = 5
_MOST_RESTARTS = 10


def joiners(parameters: Parameters) -> Stage:
    """S4: clients come to four more brokers, one every 10 s, and then a new broker starts."""
    n = parameters.brokers
    late = min(4, n - 1)
    stage = Stage(parameters, seconds=WARM_UP_S + 10 * late + 30)
    stage.start([stage.limit] * (n - late) + [None] * late)
    for place, name in enumerate(stage.names[n - late :]):
        stage.event(WARM_UP_S + 10 * place, partial(stage.want, name, stage.limit))
    stage.event(WARM_UP_S + 10 * late, partial(stage.start_one, "broker-new", stage.limit))
    return stage


def graceful_leave(parameters: Parameters) -> Stage:
    """S5: a broker says that it goes, and goes."""
    stage = Stage(parameters, seconds=50)
    stage.start(stage.all_of_it())
    stage.event(WARM_UP_S, partial(stage.world.leave, stage.names[0]))
    return stage


def crash_of_the_busiest(parameters: Parameters) -> Stage:
    """S6: the broker with half of the limit is killed just when the others come to want all of it."""
    stage = Stage(parameters, seconds=60)
    busiest, others = stage.names[0], parameters.brokers - 1
    stage.start([stage.limit // 2, *([stage.limit // 2 // others] * others)])
    stage.event(
        WARM_UP_S,
        partial(stage.world.crash, busiest),
        partial(stage.want_each, stage.all_of_it()),
    )
    return stage


def dependencies_lost(parameters: Parameters) -> Stage:
    """S7: no ZooKeeper for 10 s and for 60 s, no bus for 12 s, one session lost."""
    stage = Stage(parameters, seconds=200)
    world, first = stage.world, stage.names[0]
    stage.start(stage.all_of_it())
    stage.trouble(WARM_UP_S, world.zookeeper.lose_quorum)
    stage.event(30, world.zookeeper.regain_quorum)
    stage.trouble(50, world.zookeeper.lose_quorum)
    stage.event(110, world.zookeeper.regain_quorum)
    stage.trouble(130, partial(setattr, world.network, "down", True))
    stage.event(142, partial(setattr, world.network, "down", False))
    stage.trouble(160, lambda: world.zookeeper.cut(world.hosts[first].session))
    stage.event(170, lambda: world.zookeeper.restore(world.hosts[first].session))
    return stage


def limit_changes(parameters: Parameters) -> Stage:
    """S13: the limit doubles, goes to half of what it was, to 0, and back; then topics are counted."""
    stage = Stage(parameters, seconds=130)
    names, twice = stage.names, 2 * stage.limit
    stage.start([twice] * parameters.brokers, topics=3)
    stage.at(0.5, partial(stage.want, names[0], twice, topics=1))
    stage.event(WARM_UP_S, partial(stage.define, 2 * stage.limit))
    stage.event(40, partial(stage.define, stage.limit // 2))
    stage.event(60, partial(stage.define, 0))
    stage.event(80, partial(stage.define, stage.limit))
    stage.event(100, partial(stage.define, stage.limit, weights="topics"))
    return stage


def lost_reports(parameters: Parameters) -> Stage:
    """S14: demand turns round while 1, 10 and 30 % of the reports are lost, then 30 % in runs of five."""
    stage = Stage(parameters, seconds=140, loss=0.3)
    conditions = stage.world.network.conditions
    rates = (0.01, 0.1, 0.3) if parameters.loss is None else (parameters.loss,) * 3
    stage.start(stage.skewed())
    for place, rate in enumerate(rates):
        demand = stage.skewed() if place % 2 else stage.all_of_it()
        second = WARM_UP_S + 30 * place
        stage.at(second, partial(setattr, conditions, "loss", rate))
        stage.event(second, partial(stage.want_each, demand))
    stage.at(110, partial(setattr, conditions, "burst", 5))
    stage.event(110, partial(stage.want_each, stage.skewed()))
    return stage


def late_reports(parameters: Parameters) -> Stage:
    """S15: reports 1, 3, 5 rounds late; a tenth doubled and reordered; then an old incarnation's."""
    stage = Stage(parameters, seconds=460, delay_rounds=_MOST_DELAY_ROUNDS)
    conditions = stage.world.network.conditions
    chosen = parameters.delay_rounds
    delays = (1, 3, _MOST_DELAY_ROUNDS) if chosen is None else (chosen,) * 3
    stage.late(0, delays[0])
    stage.start(stage.skewed())
    for place, (second, rounds) in enumerate(zip((WARM_UP_S, 80, 160), delays, strict=True)):
        demand = stage.skewed() if place % 2 else stage.all_of_it()
        stage.late(second, rounds)
        stage.event(second, partial(stage.want_each, demand))
    stage.at(260, partial(setattr, conditions, "duplicate", 0.1))
    stage.at(260, partial(setattr, conditions, "reorder", 0.1))
    stage.event(260, partial(stage.want_each, stage.skewed()))
    stage.event(360, partial(stage.world.restart, stage.names[-1], _DOWN_NS))
    return stage


def mixed_intervals(parameters: Parameters) -> Stage:
    """S16: report intervals of 1 to 5 s, clocks apart by up to 10 s, one jumps by a minute."""
    stage = Stage(parameters, seconds=170)
    rng = stage.world.rng
    stage.define()
    for place, (name, rate) in enumerate(zip(stage.names, stage.skewed(), strict=True)):
        ahead_ns = rng.randrange(10 * NANOS_PER_SECOND)
        stage.start_one(name, rate, round_seconds=1 + place % 5, clock_ns=ahead_ns)
    jumper = stage.names[-1]
    stage.event(40, partial(stage.want_each, stage.all_of_it()))
    stage.event(80, lambda: stage.world.hosts[jumper].jump_clock(60 * NANOS_PER_SECOND))
    stage.event(120, partial(stage.want_each, stage.skewed()))
    return stage


def partition(parameters: Parameters) -> Stage:
    """S17: split 3/2 on the bus for 5 s, with ZooKeeper for 30 s, on the bus for 120 s; a deaf link."""
    stage = Stage(parameters, seconds=300)
    world, names = stage.world, stage.names
    cut_at = -(-len(names) * 3 // 5)
    majority, minority = names[:cut_at], names[cut_at:]
    stage.start(stage.all_of_it())
    split = partial(world.network.partition, majority, minority)
    stage.trouble(WARM_UP_S, split)
    stage.event(25, world.network.heal)
    stage.trouble(40, split, *(partial(_cut, stage, name) for name in minority))
    stage.event(70, world.network.heal, *(partial(_restore, stage, name) for name in minority))
    stage.trouble(90, split)
    stage.event(210, world.network.heal)
    stage.trouble(230, partial(world.network.cut, names[0], names[-1]))
    stage.event(260, world.network.heal)
    return stage


def pause(parameters: Parameters) -> Stage:
    """S18: one sidecar stands still for 5 s, longer than its session lives."""
    stage = Stage(parameters, seconds=60)
    stage.start(stage.all_of_it())
    name = stage.names[0]
    stage.trouble(WARM_UP_S, lambda: stage.world.hosts[name].pause(5 * NANOS_PER_SECOND))
    stage.event(WARM_UP_S + 5)
    return stage


def rolling_restart(parameters: Parameters) -> Stage:
    """S19: every peer restarts in turn, 10 s apart, in order and by SIGKILL alternately; one flaps."""
    restarts = min(_MOST_RESTARTS, parameters.brokers)
    flapping = WARM_UP_S + 10 * restarts + 10
    stage = Stage(parameters, seconds=flapping + 40)
    stage.start(stage.all_of_it())
    for place, name in enumerate(stage.names[:restarts]):
        graceful = place % 2 == 0
        stage.event(
            WARM_UP_S + 10 * place,
            partial(stage.world.restart, name, _DOWN_NS, graceful=graceful),
        )
    flap = partial(stage.world.restart, stage.names[-1], _DOWN_NS)
    for second in range(flapping, flapping + 9, 3):
        stage.trouble(second, flap)
    stage.event(flapping + 9, flap)
    return stage


def _cut(stage: Stage, name: str) -> None:
    stage.world.zookeeper.cut(stage.world.hosts[name].session)


def _restore(stage: Stage, name: str) -> None:
    stage.world.zookeeper.restore(stage.world.hosts[name].session)
