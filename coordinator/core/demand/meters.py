"""This broker's own traffic: the gate's counts become one sample per round.

A sample holds the figures of the next report: the rate admitted in the round, the part of it in which
producers waited for tokens, and the demand estimated from both (estimator.py) and from the single counts
(sampling.py).

**Debt is use.** The gate lets a batch pass that is larger than its bucket, and the bucket owes it. During
the debt nothing passes and no producer waits, so it looks like no demand: the limit would go to others,
the debt would be paid off at the rate of the reserve, and the next batch would wait for seconds. The
debt that was paid in a round is therefore use of the limit.

Invariant: a meter exists only for a group and class with participants, with traffic in the last round,
or with farewell reports still to be sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinator.core.demand.estimator import DemandEstimate
from coordinator.core.demand.sampling import (
    Count,
    PostBacklogRate,
    SaturationDetector,
)
from coordinator.core.model import (
    DIMENSIONS_OF,
    NANOS_PER_SECOND,
    MonitoringClass,
    Rates,
    ResourceGroup,
    TrafficKey,
    Usage,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.traffic import Traffic

_LITTLE_PARTS = 4
"""A quarter of an equal part of a limit is little: all brokers together may keep a quarter of the
limit."""

_SIZE_MOVED_PERMILLE = 50
"""The least change of the mean message size that is taken over: with less, a split would follow noise."""


class UnitMeter:
    """Messages or bytes of one group and class at this broker."""

    __slots__ = (
        "_alarm", "_estimate", "_held_ns", "_owed", "_owed_before", "_size", "_waited_ns",
        "admitted", "sample", "sample_held_permille",
    )  # fmt: skip

    def __init__(self, settings: CoreSettings) -> None:
        self._estimate = DemandEstimate(settings)
        self._alarm = SaturationDetector(settings.saturated_permille)
        #: Tokens owed at the last count, and when the round began.
        self._owed = self._owed_before = 0
        #: Counted in the present round.
        self.admitted = 0
        #: Time throttled by this unit, and by either of two that are split together.
        self._held_ns = self._waited_ns = 0
        #: The mean amount of this unit per message.
        self._size = 1
        #: The last closed round.
        self.sample = 0
        self.sample_held_permille = 0

    @property
    def demand(self) -> int | None:
        """Return the demand, per second, at its high end; None is unbounded."""
        return self._estimate.demand

    @property
    def is_probe(self) -> bool:
        """Return whether that is a multiple of the limit, and no estimate of traffic."""
        return self._estimate.is_probe

    def count(self, count: Count, limit: int | None) -> bool:
        """Add the gate's count; return whether the broker has become saturated with it."""
        self.admitted += count.admitted
        self._held_ns += count.held_ns
        self._waited_ns += count.waited_ns
        self._owed = count.owed
        self._alarm.add(count)
        if limit is None or self.demand is None or not self._is_saturated(limit):
            return False
        is_new = self._estimate.is_new
        if not self._estimate.saturate(limit, self._alarm.messages):
            return False
        # Of a newcomer it is always right.
        self._alarm.ring(None if is_new else limit)
        return True

    def close_round(
        self,
        elapsed_ns: int,
        limit: int | None,
        little: int,
        messages: int,
        afterwards: int | None,
        *,
        began: bool = False,
    ) -> None:
        """Turn the counts into the round's sample and start the next round.

        Args:
            elapsed_ns: the length of the round.
            limit: per second; None is unlimited.
            little: the part of the group's limit that may be kept for a while, per second.
            messages: admitted in the round, whatever the unit.
            afterwards: the rate per second after the last waiting ended, where it shows demand
                better.
            began: whether the first participant appeared in the round.
        """
        self.sample = self.admitted
        self.sample_held_permille = held_permille = _permille(self._held_ns, elapsed_ns)
        waited_permille = _permille(self._waited_ns, elapsed_ns)
        began = began and self._alarm.is_too_short(self._waited_ns)
        self.admitted = self._held_ns = self._waited_ns = 0
        if messages:
            self._size = max(1, self.sample // messages)
        paid = 0 if limit is None else max(0, self._owed_before - self._owed)
        self._owed_before = self._owed
        rate = (self.sample + paid) * NANOS_PER_SECOND // elapsed_ns
        alarmed = self._alarm.close_round(rate, waited_permille)
        if (
            alarmed
            and limit is not None
            and (self._is_saturated(limit) or (self._estimate.is_new and self._alarm.waits))
        ):
            return  # it began within the round, and the sample does not show it
        if afterwards is not None:
            rate, held_permille, waited_permille = afterwards, 0, 0
        messages = rate * elapsed_ns // NANOS_PER_SECOND // self._size
        self._estimate.observe(
            rate, held_permille, waited_permille, limit, messages, little, began=began
        )

    def is_idle(self) -> bool:
        """Return whether the last round had nothing to report."""
        return self.sample == 0 and self.sample_held_permille == 0

    def _is_saturated(self, limit: int) -> bool:
        return self._estimate.believes(self._alarm.messages) and self._alarm.shows(limit)


class Meter:
    """One group's and class's traffic at this broker."""

    __slots__ = (
        "_afterwards", "_jointly", "began", "bytes", "farewells", "message_size", "messages",
        "participants", "topics",
    )  # fmt: skip

    def __init__(self, settings: CoreSettings) -> None:
        self.messages = UnitMeter(settings)
        self.bytes = UnitMeter(settings)
        self._afterwards = PostBacklogRate()
        #: Whether the law splits messages and bytes together.
        self._jointly = False
        #: Whether the first participant appeared in this round.
        self.began = False
        #: The present numbers.
        self.participants = 0
        self.topics = 0
        #: Reports of zero that are still owed after the last participant left.
        self.farewells = 0
        #: Bytes per message on the average; 0 before the first message.
        self.message_size = 0

    def count(
        self,
        traffic: Traffic,
        elapsed_ns: int,
        messages_limit: int | None,
        bytes_limit: int | None,
        *,
        jointly: bool,
    ) -> bool:
        """Add the gate's count; return whether either unit has become saturated with it."""
        self._jointly = jointly
        self._afterwards.count(traffic, elapsed_ns)
        # Refused messages count as waiting, and can be more than there was time for.
        held_ns = waited_ns = (
            min(elapsed_ns, traffic.messages_held_ns),
            min(elapsed_ns, traffic.bytes_held_ns),
        )
        if jointly and messages_limit is not None and bytes_limit is not None:
            waited_ns = (min(elapsed_ns, sum(held_ns)),) * 2
        passed = traffic.messages
        messages = Count(
            passed, held_ns[0], waited_ns[0], elapsed_ns, passed, traffic.messages_owed
        )
        bytes_ = Count(
            traffic.bytes, held_ns[1], waited_ns[1], elapsed_ns, passed, traffic.bytes_owed
        )
        saturated = self.messages.count(messages, messages_limit)
        return self.bytes.count(bytes_, bytes_limit) or saturated

    def close_round(
        self, elapsed_ns: int, limits: tuple[int | None, int | None], little: tuple[int, int]
    ) -> None:
        """Turn the counts into the round's samples and start the next round.

        Args:
            elapsed_ns: the length of the round.
            limits: of messages and of bytes, in force.
            little: the part of the group's limits that may be kept for a while, per second.
        """
        passed = self.messages.admitted
        after = self._afterwards.close_round(elapsed_ns)
        began, self.began = self.began, False
        for unit, limit, few, rate in zip(
            (self.messages, self.bytes), limits, little, after, strict=True
        ):
            unit.close_round(elapsed_ns, limit, few, passed, rate, began=began)
        if self.messages.sample:
            size = -(-self.bytes.sample // self.messages.sample)
            if abs(size - self.message_size) * 1000 > self.message_size * _SIZE_MOVED_PERMILLE:
                self.message_size = size

    def usage(self, messages_limit: int | None, bytes_limit: int | None) -> Usage:
        """Return the usage to report, with the limits in force."""
        both = messages_limit is not None and bytes_limit is not None
        demands = self._demands(in_proportion=both and self._jointly)
        return Usage(
            messages=self.messages.sample,
            bytes=self.bytes.sample,
            messages_throttled_permille=self.messages.sample_held_permille,
            bytes_throttled_permille=self.bytes.sample_held_permille,
            messages_demand=demands[0],
            bytes_demand=demands[1],
            messages_limit=messages_limit,
            bytes_limit=bytes_limit,
            participants=self.participants,
            topics=self.topics,
            message_size=self.message_size if messages_limit and bytes_limit else 0,
        )

    def _demands(self, *, in_proportion: bool) -> tuple[int | None, int | None]:
        """Return the demand for both units; a probe of one is one of both, by the message size."""
        messages, bytes_ = self.messages.demand, self.bytes.demand
        probing = self.messages.is_probe or self.bytes.is_probe
        if (
            not (in_proportion and probing and self.message_size)
            or messages is None
            or bytes_ is None
        ):
            return messages, bytes_
        probed = max(messages, bytes_ // self.message_size)
        return probed, probed * self.message_size


class Meters:
    """All meters of this broker."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._meters: dict[TrafficKey, Meter] = {}

    def __iter__(self) -> Iterator[tuple[TrafficKey, Meter]]:
        return iter(self._meters.items())

    def get(self, key: TrafficKey) -> Meter | None:
        """Return the meter of a group and class; None if this broker has no traffic of it."""
        return self._meters.get(key)

    def count(self, traffic: Traffic, elapsed_ns: int, limits: Rates, *, jointly: bool) -> bool:
        """Add the gate's count of one group and class; return whether it has become saturated.

        Args:
            traffic: since the last count.
            elapsed_ns: the time since the last count.
            limits: in force.
            jointly: whether the group's law splits messages and bytes together.
        """
        meter = self._meter((traffic.group, traffic.monitoring_class))
        self._take_part(meter, traffic.participants)
        meter.topics = traffic.topics
        both = _limits_of(limits, traffic.monitoring_class)
        return meter.count(traffic, elapsed_ns, *both, jointly=jointly)

    def set_participants(self, key: TrafficKey, participants: int) -> None:
        """Note that the first participant appeared or the last one left."""
        self._take_part(self._meter(key), participants)

    def close_round(
        self,
        elapsed_ns: int,
        limits: Mapping[str, Rates],
        groups: Mapping[str, ResourceGroup],
        members: int,
    ) -> None:
        """Close the round of every meter and drop those with nothing left to report.

        Args:
            elapsed_ns: the length of the round.
            limits: in force at this broker.
            groups: with their limits for the cluster.
            members: N.
        """
        for key, meter in list(self._meters.items()):
            name, monitoring_class = key
            in_force = _limits_of(limits.get(name, Rates()), monitoring_class)
            group = groups.get(name)
            whole = _limits_of(group.limits if group else Rates(), monitoring_class)
            little = (_little_of(whole[0], members), _little_of(whole[1], members))
            meter.close_round(elapsed_ns, in_force, little)
            idle = meter.messages.is_idle() and meter.bytes.is_idle()
            # No report lists a group that is not defined, so it is owed no farewell.
            if idle and not meter.participants and not (group and meter.farewells):
                del self._meters[key]

    def forget(self, group: str) -> None:
        """Forget a deleted group."""
        for monitoring_class in MonitoringClass:
            self._meters.pop((group, monitoring_class), None)

    def _meter(self, key: TrafficKey) -> Meter:
        meter = self._meters.get(key)
        if meter is None:
            meter = self._meters[key] = Meter(self._settings)
        return meter

    def _take_part(self, meter: Meter, participants: int) -> None:
        if participants:
            meter.began = meter.began or not meter.participants
            meter.farewells = 0
        elif meter.participants:
            meter.farewells = self._settings.repeat_rounds + 1
        meter.participants = participants


def _permille(part: int, whole: int) -> int:
    return min(1000, part * 1000 // whole) if whole > 0 else 0


def _limits_of(limits: Rates, monitoring_class: MonitoringClass) -> tuple[int | None, int | None]:
    messages, bytes_ = DIMENSIONS_OF[monitoring_class]
    return limits.of(messages), limits.of(bytes_)


def _little_of(limit: int | None, members: int) -> int:
    return 0 if limit is None else limit // (_LITTLE_PARTS * max(1, members))
