"""The means to tell a scenario: a world with N named brokers and one group, and shorthands for events.

A scenario is a function that takes a ``Stage``, starts hosts and says what happens when. ``event`` marks
a moment from which the group must settle again; the metrics go by those marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    Rate,
    TrafficKey,
    Unit,
    rates_of,
)
from coordinator.core.settings import CoreSettings
from coordinator.simulation.network import NetworkConditions
from coordinator.simulation.traffic import Constant, Source
from coordinator.simulation.world import World

GROUP = "orders"
"""The group of scenarios that need only one."""

WARM_UP_S = 20
"""By then every start is over; what comes before is not measured, except in a cold start."""

_LIMITS: Mapping[Unit, int] = {Unit.MESSAGES: 1_000, Unit.BYTES: 100_000_000}
_BROKERS_OF_LIMIT = 5


@dataclass(frozen=True, slots=True)
class Parameters:
    """The choices of a run.

    Args:
        brokers: N.
        law: of every group.
        policy: the overshoot policy of every group.
        loss: share of reports lost; None leaves it to the scenario.
        delay_rounds: how late reports are; None leaves it to the scenario.
        seed: the root of all chance.
        dimension: what every group limits.
        groups: how many there are, in a scenario of many; None leaves it to the scenario.
        native: how many brokers have no gate, in a mixed fleet; None leaves it to the scenario.
    """

    brokers: int = 5
    law: str = "max-min"
    policy: str = "balanced"
    loss: float | None = None
    delay_rounds: float | None = None
    seed: int = 0
    dimension: Dimension = Dimension.PUBLISH_MESSAGES
    groups: int | None = None
    native: int | None = None


@dataclass(slots=True)
class Stage:
    """A world, and the seconds of a scenario at which something happens in it.

    Args:
        parameters: of the run.
        seconds: its length.
        loss: the part of reports that is lost, unless the parameters name one.
        delay_rounds: the delay of reports, unless the parameters name one.
    """

    parameters: Parameters
    seconds: int
    loss: float = 0.0
    delay_rounds: float = 0.0
    world: World = field(init=False)
    #: From which second on reports are late, and by how many rounds.
    lateness: list[tuple[float, float]] = field(init=False)
    #: Seconds from which the group must settle.
    events: list[int] = field(default_factory=list)
    #: Seconds in which trouble begins that is not expected to settle before the next event.
    troubles: list[int] = field(default_factory=list)
    #: The second from which on everything is measured.
    measured_from: int = WARM_UP_S
    #: The longest report interval of any host, in seconds.
    round_seconds: int = 1

    def __post_init__(self) -> None:
        chosen = self.parameters
        if chosen.loss is not None:
            self.loss = chosen.loss
        if chosen.delay_rounds is not None:
            self.delay_rounds = chosen.delay_rounds
        conditions = NetworkConditions(loss=self.loss)
        conditions.delay_ns += round(self.delay_rounds * NANOS_PER_SECOND)
        self.lateness = [(0, self.delay_rounds)]
        self.world = World(chosen.seed, self.seconds, conditions)

    @property
    def limit(self) -> int:
        """C: 1,000 messages or 100 MB per second, more for a cluster of more than five brokers."""
        limit = _LIMITS[self.parameters.dimension.unit]
        return max(limit, limit // _BROKERS_OF_LIMIT * self.parameters.brokers)

    @property
    def key(self) -> TrafficKey:
        """Under which a host's load in the group is found."""
        return GROUP, self.parameters.dimension.monitoring_class

    @property
    def names(self) -> list[str]:
        """broker-1 and so on, sorted as numbers and as names."""
        digits = len(str(self.parameters.brokers))
        return [f"broker-{number:0{digits}}" for number in range(1, self.parameters.brokers + 1)]

    def define(
        self, limit: Rate | None = None, *, group: str = GROUP, weights: str = "equal"
    ) -> None:
        """Create or change a group."""
        chosen = self.parameters
        self.world.define(
            group,
            rates_of({chosen.dimension: self.limit if limit is None else limit}),
            law=chosen.law,
            policy=chosen.policy,
            weights=weights,
        )

    def start(self, rates: Sequence[int | None], *, topics: int = 1, poisson: bool = False) -> None:
        """Define the group and start every broker, each with its demand, at once."""
        self.define()
        for name, rate in zip(self.names, rates, strict=True):
            self.begin(name, {GROUP: Constant(rate, topics=topics)}, poisson=poisson)

    def begin(self, name: str, sources: Mapping[str, Source], *, poisson: bool = False) -> None:
        """Start one broker now, in any groups."""
        self.world.start(name, sources, dimension=self.parameters.dimension, poisson=poisson)

    def start_one(
        self, name: str, rate: int | None, *, round_seconds: int = 1, clock_ns: int = 0
    ) -> None:
        """Start one broker now."""
        settings = CoreSettings(broker=name, round_ns=round_seconds * NANOS_PER_SECOND)
        self.round_seconds = max(self.round_seconds, round_seconds)
        self.world.start(
            name,
            {GROUP: Constant(rate)},
            dimension=self.parameters.dimension,
            settings=settings,
            clock_ns=clock_ns,
        )

    def want(self, name: str, per_second: int | None, *, topics: int = 1) -> None:
        """Set the demand of a broker's clients; None disconnects them."""
        self.load(name, Constant(per_second, topics=topics))

    def want_each(self, rates: Sequence[int | None]) -> None:
        """Set the demand of every broker's clients."""
        for name, rate in zip(self.names, rates, strict=True):
            self.want(name, rate)

    def load(self, name: str, source: Source) -> None:
        """A broker's clients follow another source from now on; a broker that is down has none."""
        host = self.world.hosts.get(name)
        if host is not None:
            host.loads[self.key].source = source

    def skewed(self) -> list[int]:
        """The first broker wants 80 % of the limit, the others 20 % together."""
        others = len(self.names) - 1
        return [self.limit * 8 // 10, *(self.limit * 2 // 10 // others for _ in range(others))]

    def all_of_it(self) -> list[int]:
        """Each broker wants the whole limit."""
        return [self.limit] * len(self.names)

    def event(self, second: int, *actions: Callable[[], None]) -> None:
        """Something happens, and the group must settle from there."""
        self.events.append(second)
        self.at(second, *actions)

    def trouble(self, second: int, *actions: Callable[[], None]) -> None:
        """Something breaks that only the next event makes whole."""
        self.troubles.append(second)
        self.at(second, *actions)

    def late(self, second: int, rounds: float) -> None:
        """From here on reports are late by this number of rounds."""
        self.lateness.append((second, rounds))
        conditions = self.world.network.conditions
        delay_ns = round(rounds * NANOS_PER_SECOND)
        self.at(second, partial(setattr, conditions, "delay_ns", delay_ns))

    def lateness_at(self, second: int) -> float:
        """By how many rounds the reports of this second are late."""
        return [rounds for since, rounds in self.lateness if since <= second][-1]

    def calm_after(self, second: int) -> range:
        """The seconds from here to the next event or trouble, or to the end."""
        later = [mark for mark in (*self.events, *self.troubles) if mark > second]
        return range(second, min(later, default=self.seconds))

    def at(self, second: float, *actions: Callable[[], None]) -> None:
        """Something happens that is no reason to settle anew."""
        for action in actions:
            self.world.at(second, action)
