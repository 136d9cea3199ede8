"""The last minute, second by second: it shows why clients were throttled although its average is low.

Limits hold by the second, or finer; consoles show ``messages in a minute / 60``. Bursty traffic is
throttled in the seconds of the bursts while its average stays far below the limit (question 1 of a
managed Pulsar's documentation). This module therefore keeps both for this broker: the average of the
minute and its busiest second, and the number of seconds with throttling.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.answer import answer
from coordinator.core.model import NANOS_PER_SECOND, Dimension, Rate, TrafficKey, Unit
from coordinator.core.rates import in_digits
from coordinator.core.traffic import Traffic

MINUTE: Final = 60

_UNITS: Final = (Unit.MESSAGES, Unit.BYTES)


@answer
class MinuteView:
    """The last minute by the second: the average that consoles show, and the seconds that it hides."""

    seconds: int
    """how many of them; at most 60"""
    average_per_second: int
    peak_second: int
    """what passed in the busiest one"""
    throttled_seconds: int
    """in how many of them clients waited"""

    def sentence(self, limit: Rate | None) -> str:
        """Return why clients waited below the limit; empty when none waited below it."""
        if limit is None or not self.throttled_seconds or self.average_per_second >= limit:
            return ""
        return (
            f"Clients waited in {self.throttled_seconds} of the last {self.seconds} s although the "
            f"average of them, {self.average_per_second:,}/s, is below the {in_digits(limit)}/s: limits "
            f"hold by the second, and in the busiest one {self.peak_second:,} passed."
        )


@dataclass(slots=True)
class _Track:
    """Messages and bytes admitted, and whether either was throttled, in a ring of seconds."""

    second: int
    admitted: list[list[int]] = field(default_factory=lambda: [[0] * (MINUTE + 1) for _ in _UNITS])
    waited: list[list[bool]] = field(
        default_factory=lambda: [[False] * (MINUTE + 1) for _ in _UNITS]
    )
    #: Seconds with throttling, since the start.
    throttled: list[int] = field(default_factory=lambda: [0, 0])
    began: int = 0

    def turn(self, second: int) -> None:
        """Clear the entries of the seconds that have begun since."""
        for begun in range(max(self.second + 1, second - MINUTE), second + 1):
            for admitted, waited in zip(self.admitted, self.waited, strict=True):
                admitted[begun % (MINUTE + 1)] = 0
                waited[begun % (MINUTE + 1)] = False
        self.second = max(self.second, second)


class TrafficSeconds:
    """Traffic of this broker by group, class and second."""

    def __init__(self) -> None:
        self._tracks: dict[TrafficKey, _Track] = {}

    def add(self, counted: Iterable[Traffic], now_ns: int) -> None:
        """Add the gate's counts since the last call, all of them to the present second."""
        second = now_ns // NANOS_PER_SECOND
        for traffic in counted:
            key = (traffic.group, traffic.monitoring_class)
            track = self._tracks.get(key)
            if track is None:
                track = self._tracks[key] = _Track(second, began=second)
            if second != track.second:
                track.turn(second)
            place = second % (MINUTE + 1)
            track.admitted[0][place] += traffic.messages
            track.admitted[1][place] += traffic.bytes
            for unit, held_ns in enumerate((traffic.messages_held_ns, traffic.bytes_held_ns)):
                if held_ns and not track.waited[unit][place]:
                    track.waited[unit][place] = True
                    track.throttled[unit] += 1

    def keep(self, groups: Collection[str]) -> None:
        """Forget all groups but these."""
        self._tracks = {key: track for key, track in self._tracks.items() if key[0] in groups}

    def throttled(self, group: str, dimension: Dimension) -> int:
        """Return the number of seconds with throttling, since the start."""
        track = self._tracks.get((group, dimension.monitoring_class))
        return 0 if track is None else track.throttled[_UNITS.index(dimension.unit)]

    def view(self, group: str, dimension: Dimension, now_ns: int) -> MinuteView | None:
        """Return the last whole seconds; None before the first one."""
        track = self._tracks.get((group, dimension.monitoring_class))
        if track is None:
            return None
        second = now_ns // NANOS_PER_SECOND
        track.turn(second)
        seconds = range(max(track.began, second - MINUTE), second)
        if not seconds:
            return None
        unit = _UNITS.index(dimension.unit)
        admitted = [track.admitted[unit][place % (MINUTE + 1)] for place in seconds]
        waited = [track.waited[unit][place % (MINUTE + 1)] for place in seconds]
        return MinuteView(len(seconds), sum(admitted) // len(seconds), max(admitted), sum(waited))
