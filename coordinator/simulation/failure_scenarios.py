"""Scenarios in which something fails, comes or goes: S4-S7, S13-S19.

Where nothing else is said every broker is saturated, since only then a wrong share shows.
"""

from __future__ import annotations

from functools import partial

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.simulation.stage import WARM_UP_S, Parameters, Stage

_DOWN_NS = 1 * NANOS_PER_SECOND
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
    """S6: the broker with half of the limit is killed; the others want more than there is."""
    stage = Stage(parameters, seconds=60)
    others = parameters.brokers - 1
    stage.start([stage.limit // 2, *([stage.limit // 2 // others] * others)])
    stage.at(WARM_UP_S - 1, partial(stage.want_each, [stage.limit, *([stage.limit] * others)]))
    stage.event(WARM_UP_S, partial(stage.world.crash, stage.names[0]))
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
    """S13: the limit doubles, goes to half of what it was, to 0, and back."""
    stage = Stage(parameters, seconds=110)
    stage.start([2 * stage.limit] * parameters.brokers)
    stage.event(WARM_UP_S, partial(stage.define, 2 * stage.limit))
    stage.event(40, partial(stage.define, stage.limit // 2))
    stage.event(60, partial(stage.define, 0))
    stage.event(80, partial(stage.define, stage.limit))
    return stage


def lost_reports(parameters: Parameters) -> Stage:
    """S14: demand turns from skewed to saturated and back while reports are lost, then lost in fives."""
    stage = Stage(parameters, seconds=110, loss=0.3)
    stage.start(stage.skewed())
    stage.event(WARM_UP_S, partial(stage.want_each, stage.all_of_it()))
    stage.event(50, partial(stage.want_each, stage.skewed()))
    stage.at(80, partial(setattr, stage.world.network.conditions, "burst", 5))
    stage.event(80, partial(stage.want_each, stage.all_of_it()))
    return stage


def late_reports(parameters: Parameters) -> Stage:
    """S15: reports three rounds late; then a tenth doubled and reordered; then an old incarnation's."""
    stage = Stage(parameters, seconds=170, delay_rounds=3)
    conditions = stage.world.network.conditions
    stage.start(stage.skewed())
    stage.event(WARM_UP_S, partial(stage.want_each, stage.all_of_it()))
    stage.at(60, partial(setattr, conditions, "duplicate", 0.1))
    stage.at(60, partial(setattr, conditions, "reorder", 0.1))
    stage.event(60, partial(stage.want_each, stage.skewed()))
    stage.event(90, partial(stage.want_each, stage.all_of_it()))
    stage.event(120, partial(stage.world.restart, stage.names[-1], _DOWN_NS))
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
    """S19: every peer restarts in turn, 10 s apart, in order and by SIGKILL alternately."""
    restarts = min(_MOST_RESTARTS, parameters.brokers)
    stage = Stage(parameters, seconds=WARM_UP_S + 10 * restarts + 20)
    stage.start(stage.all_of_it())
    for place, name in enumerate(stage.names[:restarts]):
        graceful = place % 2 == 0
        stage.event(
            WARM_UP_S + 10 * place,
            partial(stage.world.restart, name, _DOWN_NS, graceful=graceful),
        )
    return stage


def _cut(stage: Stage, name: str) -> None:
    stage.world.zookeeper.cut(stage.world.hosts[name].session)


def _restore(stage: Stage, name: str) -> None:
    stage.world.zookeeper.restore(stage.world.hosts[name].session)
