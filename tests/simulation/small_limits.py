"""S32: a limit of less than one message per broker and second, shared in exact fractions.

It is judged by single messages, which the metrics of the other scenarios, made for rates, do not see: the
limiter of a simulated broker lets whole messages pass, in steps of 50 ms. So there are minutes to count,
each with the moments at which every broker let a message pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND, Rate, TrafficKey
from coordinator.simulation.host import Host
from coordinator.simulation.stage import GROUP, WARM_UP_S, Parameters, Stage
from coordinator.simulation.traffic import Constant, Load

_DEMAND: Final = 100
"""Messages per second that the clients of each broker want."""

HALF: Final = Fraction(1, 2)

_SETTLES_S: Final = 10
"""From a change to the minute that is counted."""


@dataclass(frozen=True, slots=True)
class Minute:
    """A minute in which nothing changes.

    Args:
        second: at which it begins.
        limit: messages per second of all brokers.
        brokers: that take part.
    """

    second: int
    limit: Rate
    brokers: tuple[str, ...]


@dataclass
class SmallLimits:
    """A stage whose brokers are saturated, and the moments at which they let messages pass.

    Args:
        stage: the stage.
    """

    stage: Stage
    minutes: list[Minute] = field(default_factory=list)
    _passed_ns: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tell: Callable[[Host, TrafficKey, Load, int], None] = self.stage.world.passed
        self.stage.world.passed = self._note  # type: ignore[method-assign]

    def start(self, *names: str) -> None:
        """Start brokers now."""
        for name in names:
            self.stage.begin(name, {GROUP: Constant(_DEMAND)})

    def count(self, second: int, limit: Rate, *brokers: str) -> None:
        """Count a minute."""
        self.minutes.append(Minute(second, limit, brokers))

    def passed(self, minute: Minute) -> dict[str, int]:
        """Return the messages that each broker let pass in a minute."""
        return {name: len(self._moments_s(name, minute)) for name in self._passed_ns}

    def longest_wait_s(self, name: str, minute: Minute) -> float:
        """Return the longest time between two messages that a broker let pass in a minute."""
        moments = [minute.second, *self._moments_s(name, minute), minute.second + 60]
        return max(after - before for before, after in pairwise(moments))

    def _moments_s(self, name: str, minute: Minute) -> list[float]:
        moments = [moment / NANOS_PER_SECOND for moment in self._passed_ns[name]]
        return [moment for moment in moments if minute.second < moment <= minute.second + 60]

    def _note(self, host: Host, key: TrafficKey, load: Load, admitted: int) -> None:
        moments = self._passed_ns.setdefault(host.name, [])
        moments += [self.stage.world.schedule.now_ns] * admitted
        self._tell(host, key, load, admitted)


def small_limits(parameters: Parameters) -> SmallLimits:
    """S32: limits of 2/s and 1/s on saturated brokers; one more joins, and leaves; then 0.5/s."""
    scenario = SmallLimits(Stage(parameters, seconds=390))
    names, joiner = scenario.stage.names, "broker-9"
    scenario.stage.define(2)
    scenario.start(*names)
    scenario.count(WARM_UP_S, 2, *names)
    scenario.stage.at(80, partial(scenario.stage.define, 1))
    scenario.count(80 + _SETTLES_S, 1, *names)
    scenario.stage.at(160, partial(scenario.start, joiner))
    scenario.count(160 + _SETTLES_S, 1, *names, joiner)
    scenario.stage.at(240, partial(scenario.stage.world.leave, joiner))
    scenario.count(240 + _SETTLES_S, 1, *names)
    scenario.stage.at(310, partial(scenario.stage.define, HALF))
    scenario.count(310 + 2 * _SETTLES_S, HALF, *names)
    return scenario
