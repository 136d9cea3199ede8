"""Collect the gate's counts, about twenty a second, into whole seconds of the wall clock.

Rows of different brokers can be added up only if they mean the same second. A count covers the time since
the count before it; where a second ends within that time, the count is split in proportion, so that no
message is lost or doubled and no second seems to have held one count more than another. The parts are
whole numbers and add up to the count exactly.

A count over more than ``SPREAD_MAX_NS`` (the machine was suspended) goes to its last seconds only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinator.core.model import NANOS_PER_SECOND, TrafficKey
from coordinator.core.traffic import Traffic

SPREAD_MAX_NS = 10 * NANOS_PER_SECOND
"""The longest time that a count is spread over."""


@dataclass(frozen=True, slots=True)
class SecondPart:
    """One second's part of the time that a count covers.

    Args:
        second_ns: the second's start, wall clock.
        from_ns: the part's start within the counted time.
        to_ns: the part's end within the counted time.
        whole_ns: the counted time.
    """

    second_ns: int
    from_ns: int
    to_ns: int
    whole_ns: int

    @property
    def length_ns(self) -> int:
        """The length of the part."""
        return self.to_ns - self.from_ns

    def of(self, value: int) -> int:
        """Return this part of a count."""
        # The difference of two roundings of a running sum: the parts add up to the value.
        return value * self.to_ns // self.whole_ns - value * self.from_ns // self.whole_ns


def parts(end_ns: int, elapsed_ns: int) -> Iterator[SecondPart]:
    """Yield the seconds that a count of ``elapsed_ns`` before ``end_ns`` touches; none for no time."""
    whole_ns = min(elapsed_ns, SPREAD_MAX_NS)
    start_ns = end_ns - whole_ns
    done_ns = 0
    while done_ns < whole_ns:
        moment_ns = start_ns + done_ns
        second_ns = moment_ns - moment_ns % NANOS_PER_SECOND
        until_ns = min(end_ns, second_ns + NANOS_PER_SECOND) - start_ns
        yield SecondPart(second_ns, done_ns, until_ns, whole_ns)
        done_ns = until_ns


@dataclass(slots=True)
class SecondCount:
    """The counts of one group and class in one second."""

    messages: int = 0
    bytes: int = 0
    messages_held_ns: int = 0
    bytes_held_ns: int = 0
    participants: int = 0
    topics: int = 0


@dataclass(slots=True)
class Second:
    """One second of the wall clock: its start, how much of it was observed, and its counts."""

    start_ns: int
    observed_ns: int = 0
    counts: dict[TrafficKey, SecondCount] = field(default_factory=dict)


class Seconds:
    """Collects counts and yields the seconds that are over.

    A group and class is listed in every second from its first count to the one in which its last
    participant left, with zero where it had no traffic: so silence differs from missing rows.
    """

    def __init__(self) -> None:
        self._open: dict[int, Second] = {}
        self._taking_part: dict[TrafficKey, tuple[int, int]] = {}

    def count(self, traffic: tuple[Traffic, ...], end_ns: int, elapsed_ns: int) -> Iterator[Second]:
        """Add the counts of ``elapsed_ns`` before ``end_ns``, wall clock; yield the seconds over."""
        self._note_participants(traffic)
        for part in parts(end_ns, elapsed_ns):
            second = self._open.setdefault(part.second_ns, Second(part.second_ns))
            second.observed_ns += part.length_ns
            self._list_participants(second)
            for item in traffic:
                _add(second, item, part)
        return self._over(before_ns=end_ns - end_ns % NANOS_PER_SECOND)

    def rest(self) -> Iterator[Second]:
        """Yield the seconds left, because the sidecar stops."""
        return self._over(before_ns=None)

    def _note_participants(self, traffic: tuple[Traffic, ...]) -> None:
        named = {(item.group, item.monitoring_class): item for item in traffic}
        for key in [key for key in self._taking_part if key not in named]:
            self._taking_part[key] = (0, 0)  # no news of the gate: no participant is connected
        for key, item in named.items():
            self._taking_part[key] = (item.participants, item.topics)

    def _list_participants(self, second: Second) -> None:
        for key, (participants, topics) in self._taking_part.items():
            count = second.counts.setdefault(key, SecondCount())
            count.participants, count.topics = participants, topics

    def _over(self, before_ns: int | None) -> Iterator[Second]:
        starts = sorted(start for start in self._open if before_ns is None or start < before_ns)
        for start in starts:
            second = self._open.pop(start)
            yield second
            for key, count in second.counts.items():
                if not count.participants and self._taking_part.get(key) == (0, 0):
                    del self._taking_part[key]


def _add(second: Second, traffic: Traffic, part: SecondPart) -> None:
    count = second.counts[traffic.group, traffic.monitoring_class]
    count.messages += part.of(traffic.messages)
    count.bytes += part.of(traffic.bytes)
    count.messages_held_ns += part.of(traffic.messages_held_ns)
    count.bytes_held_ns += part.of(traffic.bytes_held_ns)
