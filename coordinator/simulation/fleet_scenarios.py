"""Scenarios about the fleet: its size, an hour of mishaps, brokers without gates, liars (S20-S24)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from coordinator.core.model import NANOS_PER_SECOND, GroupUsage, UsageReport
from coordinator.simulation.native import GatedHost, NativeHost
from coordinator.simulation.native_broker import UsageTopic
from coordinator.simulation.stage import WARM_UP_S, Parameters, Stage
from coordinator.simulation.traffic import Constant, Source

_LEAST_GROUPS = 100
_GROUPS_PER_BROKER = 2
_BROKERS_PER_GROUP = 5
_TURN_S = 6
_HOUR_S = 3_600
_MISHAP_EVERY_S = 60


def scale(parameters: Parameters) -> Stage:
    """S20: a hundred groups or two a broker, each on five brokers; in all of them demand turns round."""
    stage = Stage(parameters, seconds=20, measured_from=_TURN_S)
    n = parameters.brokers
    sources: dict[str, dict[str, Source]] = {name: {} for name in stage.names}
    for number in range(parameters.groups or max(_LEAST_GROUPS, _GROUPS_PER_BROKER * n)):
        group = f"group-{number:04}"
        for place in range(min(_BROKERS_PER_GROUP, n)):
            # A stride that has no factor in common with few N spreads a group over the fleet.
            name = stage.names[(number + place * 7) % n]
            sources[name][group] = Constant(stage.limit if place else stage.limit // 20)
        # The fleet is there before the groups are, and those before their clients.
        stage.at(1, partial(stage.define, group=group))
    for name, of_groups in sources.items():
        stage.begin(name, {})
        stage.at(2, partial(stage.world.connect, name, of_groups, parameters.dimension))
    stage.event(_TURN_S, partial(_all_want_all, stage))
    return stage


def soak(parameters: Parameters) -> Stage:
    """S21: an hour of Poisson traffic with a random mishap every minute."""
    stage = Stage(parameters, seconds=_HOUR_S)
    equal = stage.limit // parameters.brokers
    stage.start([equal * 3 // 2] * parameters.brokers, poisson=True)
    for second in range(_MISHAP_EVERY_S, _HOUR_S, _MISHAP_EVERY_S):
        mishap = stage.world.rng.choice(_MISHAPS)
        mishap(stage, second)
    return stage


def mixed_fleet(parameters: Parameters) -> Stage:
    """S23: a third of the brokers has no gate, and its own limiter is steered; all are saturated."""
    stage = Stage(parameters, seconds=50)
    third = max(1, parameters.brokers // 3)
    with_gates = parameters.brokers - (third if parameters.native is None else parameters.native)
    topic = UsageTopic(stage.world.schedule, stage.world.rng)
    for place, name in enumerate(stage.names):
        kind = GatedHost if place < with_gates else NativeHost
        stage.world.kinds[name] = partial(kind, topic=topic)
    stage.start(stage.all_of_it())
    stage.event(WARM_UP_S)
    return stage


def bad_reporter(parameters: Parameters) -> Stage:
    """S24: one sidecar reports ten times its usage and demand, then nothing, then the truth again."""
    stage = Stage(parameters, seconds=110)
    equal = stage.limit // parameters.brokers
    liar = stage.names[-1]
    stage.start([*stage.all_of_it()[:-1], equal // 2])

    def lie(factor: int | None) -> None:
        host = stage.world.hosts[liar]
        host.distort = None if factor is None else partial(multiplied, factor=factor)

    stage.event(WARM_UP_S, partial(lie, 10))
    stage.event(50, partial(lie, 0))
    stage.event(80, partial(lie, None))
    return stage


def multiplied(report: UsageReport, *, factor: int) -> UsageReport:
    """A report whose usages and demands are `factor` times the truth; limits stay as they are."""
    return replace(
        report, groups=tuple(_multiplied_group(entry, factor) for entry in report.groups)
    )


def _multiplied_group(entry: GroupUsage, factor: int) -> GroupUsage:
    usages = {
        monitoring_class: replace(
            usage,
            messages=usage.messages * factor,
            bytes=usage.bytes * factor,
            messages_demand=usage.messages_demand and usage.messages_demand * factor,
            bytes_demand=usage.bytes_demand and usage.bytes_demand * factor,
        )
        for monitoring_class, usage in entry.usages.items()
    }
    return replace(entry, usages=usages)


def _all_want_all(stage: Stage) -> None:
    for host in stage.world.hosts.values():
        for load in host.loads.values():
            load.source = Constant(stage.limit)


def _spike(stage: Stage, second: int) -> None:
    equal = stage.limit // stage.parameters.brokers
    name = stage.world.rng.choice(stage.names)
    stage.at(second, partial(stage.want, name, 2 * equal))
    stage.at(second + stage.world.rng.randrange(10, 50), partial(stage.want, name, equal * 3 // 2))


def _leader_change(stage: Stage, second: int) -> None:
    # A real ensemble of three had a new one after 0.3 to 1.5 s in ten changes; S7 is a longer loss.
    stage.at(second, stage.world.zookeeper.lose_quorum)
    stage.at(second + stage.world.rng.randrange(1, 6), stage.world.zookeeper.regain_quorum)


def _losses(stage: Stage, second: int) -> None:
    conditions = stage.world.network.conditions
    stage.at(second, partial(setattr, conditions, "loss", 0.3))
    stage.at(
        second + stage.world.rng.randrange(1, 60), partial(setattr, conditions, "loss", stage.loss)
    )


def _restart(stage: Stage, second: int) -> None:
    name = stage.world.rng.choice(stage.names)
    stage.at(second, partial(stage.world.restart, name, NANOS_PER_SECOND))


_MISHAPS: tuple[Callable[[Stage, int], None], ...] = (_spike, _leader_change, _losses, _restart)
