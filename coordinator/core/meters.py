"""This broker's own traffic, made from the gate's counts into one sample per round.

A sample is what the next report says: how much was admitted in the round, for how much of it producers
waited for tokens, and the demand estimated from both. When producers were held for all of the latest
counts the demand is unbounded at once, without waiting for the end of the round.

Invariant: a meter exists only for a group and class with participants, with traffic in the last round,
or with farewell reports still to be sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinator.core.demand import estimate
from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Traffic, Unit, Usage
from coordinator.core.settings import CoreSettings

Key = tuple[str, MonitoringClass]


@dataclass(slots=True)
class UnitMeter:
    """Messages or bytes of one group and class at this broker."""

    #: Counted in the present round.
    admitted: int = 0
    held_ns: int = 0
    #: The last two counts: (held, elapsed).
    recent: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    #: The last closed round.
    sample: int = 0
    sample_held_permille: int = 0
    #: Per second; None is unbounded.
    demand: int | None = 0

    def count(self, admitted: int, held_ns: int, elapsed_ns: int) -> None:
        """Add what the gate counted in the last ``elapsed_ns``."""
        self.admitted += admitted
        self.held_ns += held_ns
        self.recent = (self.recent[1], (held_ns, elapsed_ns))

    def recent_permille(self) -> int:
        """For how much of the last two counts producers were held, in thousandths."""
        (held, elapsed), (held_last, elapsed_last) = self.recent
        return _permille(held + held_last, elapsed + elapsed_last)

    def close_round(self, elapsed_ns: int, settings: CoreSettings) -> None:
        """Turn what was counted into the round's sample and start the next round."""
        self.sample = self.admitted
        self.sample_held_permille = max(_permille(self.held_ns, elapsed_ns), self.recent_permille())
        rate = self.admitted * NANOS_PER_SECOND // elapsed_ns
        self.demand = estimate(rate, self.sample_held_permille, self.demand, settings)
        self.admitted = self.held_ns = 0

    def is_idle(self) -> bool:
        """Whether the last round had nothing to tell."""
        return self.sample == 0 and self.sample_held_permille == 0


@dataclass(slots=True)
class Meter:
    """One group's and class's traffic at this broker."""

    messages: UnitMeter = field(default_factory=UnitMeter)
    bytes: UnitMeter = field(default_factory=UnitMeter)
    #: As they are now.
    participants: int = 0
    topics: int = 0
    #: Reports of zero that are still owed after the last participant left.
    farewells: int = 0

    def unit(self, unit: Unit) -> UnitMeter:
        """The meter of one unit."""
        return self.messages if unit is Unit.MESSAGES else self.bytes

    def usage(self, messages_limit: int | None, bytes_limit: int | None) -> Usage:
        """What to report now, with the limits in force."""
        return Usage(
            messages=self.messages.sample,
            bytes=self.bytes.sample,
            messages_throttled_permille=self.messages.sample_held_permille,
            bytes_throttled_permille=self.bytes.sample_held_permille,
            messages_demand=self.messages.demand,
            bytes_demand=self.bytes.demand,
            messages_limit=messages_limit,
            bytes_limit=bytes_limit,
            participants=self.participants,
            topics=self.topics,
        )


class Meters:
    """All meters of this broker."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._meters: dict[Key, Meter] = {}

    def __iter__(self) -> Iterator[tuple[Key, Meter]]:
        return iter(self._meters.items())

    def get(self, key: Key) -> Meter | None:
        """The meter of a group and class, None when this broker has nothing to do with it."""
        return self._meters.get(key)

    def count(self, traffic: Traffic, elapsed_ns: int) -> bool:
        """Add what the gate counted for one group and class; tell whether it has become saturated."""
        key = (traffic.group, traffic.monitoring_class)
        meter = self._meters.setdefault(key, Meter())
        meter.messages.count(traffic.messages, traffic.messages_held_ns, elapsed_ns)
        meter.bytes.count(traffic.bytes, traffic.bytes_held_ns, elapsed_ns)
        self._take_part(meter, traffic.participants)
        meter.topics = traffic.topics
        saturated = False
        for unit in (meter.messages, meter.bytes):
            if (
                unit.demand is not None
                and unit.recent_permille() >= self._settings.saturated_permille
            ):
                unit.demand = None
                saturated = True
        return saturated

    def set_participants(self, key: Key, participants: int) -> None:
        """The first participant appeared or the last one left."""
        self._take_part(self._meters.setdefault(key, Meter()), participants)

    def close_round(self, elapsed_ns: int) -> None:
        """Close the round of every meter and drop those with nothing left to say."""
        for key, meter in list(self._meters.items()):
            meter.messages.close_round(elapsed_ns, self._settings)
            meter.bytes.close_round(elapsed_ns, self._settings)
            idle = meter.messages.is_idle() and meter.bytes.is_idle()
            if idle and not meter.participants and not meter.farewells:
                del self._meters[key]

    def forget(self, group: str) -> None:
        """The group is gone."""
        for monitoring_class in MonitoringClass:
            self._meters.pop((group, monitoring_class), None)

    def _take_part(self, meter: Meter, participants: int) -> None:
        if participants:
            meter.farewells = 0
        elif meter.participants:
            meter.farewells = self._settings.farewell_rounds
        meter.participants = participants


def _permille(part: int, whole: int) -> int:
    return min(1000, part * 1000 // whole) if whole > 0 else 0
