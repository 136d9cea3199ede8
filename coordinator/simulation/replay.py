"""Recorded demand, played again under other settings: what would have passed?

``pulsar-quota what-if`` shows it, and ``pulsar-quota advise`` tries its proposals by it.

A replay is a simulated cluster (world.py) whose clients want, second by second, what clients were seen to
want, and whose group has the definitions that it had, each with the same change. So the law, the transfer
policy, the reports and the buckets are the real ones; only the traffic is taken from a recording.

What a recording cannot tell is what a client that had to wait would have sent in the end. In seconds in
which a broker's clients waited nearly all of the time they are taken to want all there is, so the answer
to "what if the limit were higher" is the most that would be used, never the least.

The groups of a tree share a limit, so they are played together (tree_replay.py).

Brokers come and go with their clients: a second without a row is one without clients. Losses on the bus,
deaths and ZooKeeper's troubles are not played again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from coordinator.core.model import (
    DIMENSIONS_OF,
    NANOS_PER_SECOND,
    Dimension,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Unit,
)
from coordinator.core.settings import CoreSettings
from coordinator.simulation import metrics
from coordinator.simulation.experiment import series_of
from coordinator.simulation.recording import GroupRecord
from coordinator.simulation.traffic import MESSAGE_BYTES, Source
from coordinator.simulation.world import World

LEAD_IN_S = 20
"""The first second is played for so long before anything counts: by then the sidecars have started."""

SHORT = 0.02
"""Of what was wanted: a broker that lets that much less pass in a second throttles. Chance draws what
arrives, and a little of it passes in the next second."""

UNBOUNDED = -1
"""Wanted messages per second of clients that waited nearly all of a second."""


@dataclass(frozen=True, slots=True)
class BrokerStory:
    """One broker's clients in one group and class, second by second.

    Args:
        wanted: messages per second; None where no client was connected, UNBOUNDED where it is not known.
        messages: messages admitted.
        size: bytes admitted.
        topics: the most topics that they used.
    """

    wanted: Sequence[int | None]
    messages: Sequence[int]
    size: Sequence[int]
    topics: int = 1

    @property
    def message_bytes(self) -> int:
        """The mean size of a message, in bytes."""
        passed = sum(self.messages)
        return max(1, sum(self.size) // passed) if passed else MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """The recorded facts of one group and class.

    Args:
        monitoring_class: whose traffic.
        definitions: the group's, each with the second from which it holds; the first from 0.
        brokers: by id; all of the same length.
        in_force: of a group of a tree, the sum of its brokers' limits second by second: its limit is the
            most that it may have, and what its brokers share is its part.
    """

    monitoring_class: MonitoringClass
    definitions: Sequence[tuple[int, ResourceGroup]]
    brokers: Mapping[str, BrokerStory]
    in_force: Mapping[Dimension, Sequence[int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The group's name."""
        return self.definitions[0][1].name

    @property
    def seconds(self) -> int:
        """Its length."""
        return max((len(broker.wanted) for broker in self.brokers.values()), default=0)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Those that some definition limits."""
        return tuple(
            dimension
            for dimension in DIMENSIONS_OF[self.monitoring_class]
            if any(group.limits.of(dimension) is not None for _, group in self.definitions)
        )


@dataclass(frozen=True, slots=True)
class Change:
    """The settings to change; None leaves one as it was.

    Args:
        limits: by dimension, per second; None is unlimited.
        law: of the group.
        overshoot_policy: of the group.
        weights: of the group.
        round_seconds: the report interval of every sidecar.
    """

    limits: Mapping[Dimension, int | None] | None = None
    law: str | None = None
    overshoot_policy: str | None = None
    weights: str | None = None
    round_seconds: float | None = None

    def of(self, group: ResourceGroup) -> ResourceGroup:
        """A definition with this change."""
        rates = {dimension: group.limits.of(dimension) for dimension in Dimension}
        return replace(
            group,
            limits=Rates.from_mapping(rates | dict(self.limits or {})),
            law=self.law or group.law,
            overshoot_policy=self.overshoot_policy or group.overshoot_policy,
            weights=self.weights or group.weights,
        )

    def to(self, story: ReplayInput) -> ReplayInput:
        """Return the story with this change made to every definition."""
        changed = [(second, self.of(group)) for second, group in story.definitions]
        return replace(story, definitions=changed)


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """One dimension of one group over the seconds of a story that limit it; metrics.py has the words.

    Args:
        admitted: per second, all brokers together, on average.
        peak_overshoot: of the worst second.
        utilisation: of what could have passed.
        jain: Jain's index of u/a*.
        min_share: the smallest u/a*.
        scarce: part of the seconds in which more was wanted than the limit.
        throttled: part of the seconds in which a broker let notably less pass than was wanted there.
        by_broker: admitted per second on average, by broker.
    """

    admitted: float
    peak_overshoot: float
    utilisation: float
    jain: float
    min_share: float
    scarce: float
    throttled: float
    by_broker: Mapping[str, float]


def replay(story: ReplayInput) -> dict[Dimension, ReplayFigures]:
    """Play a story of one broker or more; the figures of every limited dimension, without the lead-in."""
    return replay_together([story])[story.name]


def replay_together(
    stories: Sequence[ReplayInput], *, round_seconds: float = 1.0
) -> dict[str, dict[Dimension, ReplayFigures]]:
    """Play several groups of one class on the same brokers; the figures of each, by name.

    Args:
        stories: what to play, of the same seconds; one without brokers is of a group without traffic.
        round_seconds: the report interval of every sidecar.
    """
    seconds = max(story.seconds for story in stories)
    world = World(0, LEAD_IN_S + seconds)
    sources: dict[str, dict[str, Source]] = {}
    for story in stories:
        for second, group in story.definitions:
            world.at(LEAD_IN_S + second if second else 0, partial(world.plant, group))
        for broker, told in story.brokers.items():
            sources.setdefault(broker, {})[story.name] = _Recorded(story, told)
    messages = DIMENSIONS_OF[stories[0].monitoring_class][0]
    for broker in sorted(sources):
        settings = CoreSettings(broker=broker, round_ns=round(round_seconds * NANOS_PER_SECOND))
        world.start(broker, sources[broker], dimension=messages, settings=settings)
    recording = world.run()
    return {
        story.name: {
            dimension: _figures(
                _played(story, recording.group(story.name, dimension)),
                [LEAD_IN_S + second for second in limited],
            )
            for dimension in story.dimensions
            if (limited := _limited(story, dimension))
        }
        for story in stories
        if story.brokers
    }


def _played(story: ReplayInput, record: GroupRecord) -> metrics.GroupSeries:
    series = series_of(record)
    if not story.in_force:
        return series
    held = [sum(each) for each in zip(*(t.limits for t in record.tracks.values()), strict=True)]
    return replace(series, limits=[max(both) for both in zip(held, [0, *held], strict=False)])


def recorded(story: ReplayInput) -> dict[Dimension, ReplayFigures]:
    """The same figures of what was recorded."""
    return {
        dimension: _figures(_series(story, dimension), limited)
        for dimension in story.dimensions
        if (limited := _limited(story, dimension))
    }


class _Recorded:
    """A source that wants what was wanted, and in the lead-in what is wanted first."""

    def __init__(self, story: ReplayInput, broker: BrokerStory) -> None:
        self.message_bytes = broker.message_bytes
        self.topics = broker.topics
        self._wanted = _wanted(story, broker)

    def rate(self, now_ns: int) -> int | None:
        """Messages per second in the second that a step which ends now belongs to."""
        second = (now_ns - 1) // NANOS_PER_SECOND - LEAD_IN_S
        return self._wanted[min(max(second, 0), len(self._wanted) - 1)]


def _wanted(story: ReplayInput, broker: BrokerStory) -> list[int | None]:
    """Messages per second; where that is not known, as many as use up the highest limit.

    Clients that waited wanted at least one, which a limit of 0 holds back.
    """
    most = 1
    for _, group in story.definitions:
        for dimension in DIMENSIONS_OF[story.monitoring_class]:
            each = _each(dimension, broker)
            most = max(most, -(-(group.limits.of(dimension) or 0) // each))
    return [most if wanted == UNBOUNDED else wanted for wanted in broker.wanted]


def _each(dimension: Dimension, broker: BrokerStory) -> int:
    """Return the cost of a message in a dimension."""
    return 1 if dimension.unit is Unit.MESSAGES else broker.message_bytes


def _series(story: ReplayInput, dimension: Dimension) -> metrics.GroupSeries:
    """Return the recording in the form that the metrics take.

    In the second of a change the higher limit is the measure, as in the convergence report: it is
    unknown on which side of the change a message passed.
    """
    limits = [
        max(_limit(story, dimension, second), _limit(story, dimension, max(0, second - 1)))
        for second in range(story.seconds)
    ]
    in_messages = dimension.unit is Unit.MESSAGES
    return metrics.GroupSeries(
        limits=limits,
        admitted={
            name: broker.messages if in_messages else broker.size
            for name, broker in story.brokers.items()
        },
        wanted={
            name: [(wanted or 0) * _each(dimension, broker) for wanted in _wanted(story, broker)]
            for name, broker in story.brokers.items()
        },
    )


def _definition(story: ReplayInput, second: int) -> ResourceGroup:
    """Return the definition in force at the end of a second."""
    *_, group = (group for since, group in story.definitions if since <= second)
    return group


def _limited(story: ReplayInput, dimension: Dimension) -> list[int]:
    """Return the seconds with a limit; without one nothing is measured in a simulated cluster.

    The second in which the first limit came is none: no limit was the higher one.
    """
    limited = [
        _definition(story, second).limits.of(dimension) is not None
        for second in range(story.seconds)
    ]
    return [second for second, now in enumerate(limited) if now and limited[max(0, second - 1)]]


def _limit(story: ReplayInput, dimension: Dimension, second: int) -> int:
    """Return the limit in force at the end of a second; without one 0, which is in no figure."""
    if story.in_force:
        return story.in_force[dimension][second]
    return _definition(story, second).limits.of(dimension) or 0


def _figures(series: metrics.GroupSeries, seconds: Sequence[int]) -> ReplayFigures:
    totals = [series.total_admitted(second) for second in seconds]
    limits = [float(series.limits[second]) for second in seconds]
    scarce = [series.total_wanted(second) > series.limits[second] for second in seconds]
    throttled = [
        any(
            passed[second] < (1 - SHORT) * series.wanted[broker][second]
            for broker, passed in series.admitted.items()
        )
        for second in seconds
    ]
    shares = metrics.shares(series, seconds)
    return ReplayFigures(
        admitted=sum(totals) / len(totals),
        peak_overshoot=metrics.peak_overshoot(totals, limits, 1),
        utilisation=metrics.utilisation(series, seconds),
        jain=metrics.jain(list(shares.values())),
        min_share=min(shares.values(), default=1.0),
        scarce=sum(scarce) / len(scarce),
        throttled=sum(throttled) / len(throttled),
        by_broker={
            broker: sum(values[second] for second in seconds) / len(seconds)
            for broker, values in series.admitted.items()
        },
    )
