"""From samples of counters to one curve per broker: messages admitted since the recording began.

A counter belongs to one *life* of a topic: it starts at 0 when a broker loads the topic and ends when
the topic moves or its broker dies. A life is recognised by its broker, and by a count that went down.
Each life becomes a piecewise linear curve, and a broker's curve is the sum of its topics' lives.

Three things limit what can be known, and none of them is hidden by a guess:

- The count was read somewhere between question and answer. A sample that took long would move messages
  from one window to another, so it is left out as long as others are near.
- A life's first sample shows messages of a time before it. They are spread over the time since it was
  last seen that the broker did not serve the topic.
- What a life counted after its last sample is lost with it: at most one sampling period's messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from deploy.demo.recording import Miss, Sample

#: A sample is taken at half of its duration; 20 ms either way are 2 % of a window of one second.
SLOWEST_SAMPLE_S = 0.04
#: Rather an inexact sample than a longer gap than this.
LONGEST_GAP_S = 0.5


class CountCurve:
    """A count that never falls, known at some moments and taken as linear between them."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        """Take moments (seconds, rising) and counts; before the first nothing was counted."""
        assert points
        assert all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(points))
        self.times = tuple(time for time, _ in points)
        self._counts = tuple(count for _, count in points)

    def at(self, moment_s: float) -> float:
        """Return the count at this moment; outside the known moments it stands still."""
        right = bisect_left(self.times, moment_s)
        if right == 0:
            return self._counts[0]
        if right == len(self.times):
            return self._counts[-1]
        t0, t1 = self.times[right - 1], self.times[right]
        c0, c1 = self._counts[right - 1], self._counts[right]
        return c0 + (c1 - c0) * (moment_s - t0) / (t1 - t0)


class Curve:
    """The messages that one broker admitted: the sum of the lines of its topics' lives."""

    def __init__(self, lines: Sequence[CountCurve]) -> None:
        """Add up these lines; none at all is a broker that admitted nothing."""
        self._lines = tuple(lines)

    @property
    def times(self) -> tuple[float, ...]:
        """Every moment at which the curve may bend, in seconds."""
        return tuple(sorted({time for line in self._lines for time in line.times}))

    def count(self, moment_s: float) -> float:
        """Return the messages up to this moment."""
        return sum(line.at(moment_s) for line in self._lines)

    def rate(self, start_s: float, length_s: float = 1.0) -> float:
        """Return the messages per second in the window that starts here."""
        return (self.count(start_s + length_s) - self.count(start_s)) / length_s


def curves(samples: Sequence[Sample], misses: Sequence[Miss] = ()) -> dict[str, Curve]:
    """Return a curve for every broker that served a topic."""
    by_topic: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_topic[sample.topic].append(sample)
    absent: dict[tuple[str, str], list[float]] = defaultdict(list)
    for miss in misses:
        absent[miss.topic, miss.broker].append(miss.at_s)
    lines: dict[str, list[CountCurve]] = defaultdict(list)
    for topic, ordered in by_topic.items():
        before: Sample | None = None
        for life in _lives(_usable(ordered)):
            points = _start(life[0], before, absent[topic, life[0].broker])
            points += [(sample.at_s, float(sample.messages)) for sample in life]
            lines[life[0].broker].append(CountCurve(points))
            before = life[-1]
    return {broker: Curve(of_broker) for broker, of_broker in lines.items()}


def total(by_broker: Mapping[str, Curve], start_s: float, length_s: float = 1.0) -> float:
    """Return the messages per second of all brokers together in the window that starts here."""
    return sum(curve.rate(start_s, length_s) for curve in by_broker.values())


def rate_of(
    by_broker: Mapping[str, Curve], broker: str, start_s: float, length_s: float = 1.0
) -> float:
    """Return the messages per second of one broker in the window that starts here; 0 without a curve."""
    curve = by_broker.get(broker)
    return curve.rate(start_s, length_s) if curve else 0.0


def _usable(ordered: Sequence[Sample]) -> list[Sample]:
    usable: list[Sample] = []
    for sample in ordered:
        near = usable and sample.at_s - usable[-1].at_s <= LONGEST_GAP_S
        if sample.took_s <= SLOWEST_SAMPLE_S or not near:
            usable.append(sample)
    return usable


def _lives(ordered: Sequence[Sample]) -> list[list[Sample]]:
    lives: list[list[Sample]] = []
    for sample in ordered:
        last = lives[-1][-1] if lives else None
        if last and last.broker == sample.broker and last.messages <= sample.messages:
            lives[-1].append(sample)
        else:
            lives.append([sample])
    return lives


def _start(
    first: Sample, before: Sample | None, absent_s: Sequence[float]
) -> list[tuple[float, float]]:
    """Return the moment from which the first sample's messages are counted, if there is one."""
    moments = [moment for moment in absent_s if moment < first.at_s]
    if before is not None:
        moments.append(before.at_s)
    # A topic that had a life before the recording keeps its earlier messages to itself.
    return [(max(moments), 0.0)] if moments else []
