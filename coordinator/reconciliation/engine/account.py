"""Escaped traffic of one namespace, computed from the increases that broker and gate counted.

Let B be the messages that the broker counted in a namespace, G those that the gate passed to it, E those
that escaped (came another way), F those in flight (passed and not counted yet), and L those lost with a
connection (passed and never counted). Then

    B = G + E - F - L,    so the *difference*    D = B - G = E - F - L.

E only grows; F and L only subtract. For any earlier moment s, therefore,

    E(t) - E(s) >= D(t) - D(s) - F(s):

a rise of D above its highest value is escaped traffic, but for the messages in flight at that value. The
account keeps that highest value of the last `WINDOW_NS` (the *level*), at which F was smallest, and tells
a rise above it once it is larger than the *uncertainty*. A told rise is subtracted from D, so that D is
back at the level; a smaller rise stays above it and adds to the next one. Nothing is therefore told
twice, and a slow leak is told late, not never.

* *Skew.* The gate is read after the broker, so G has some messages more than B could have: they act like
  F, and can hide traffic for one reading, but not invent any.
* *Losses.* L draws D down for good. When the old level leaves the window, the highest value since then
  takes its place: traffic is told again after at most `WINDOW_NS`. A broker that stands still that long
  loses its clients, so that F cannot stay high for longer.
* *Unknown increases* (counting.py) leave D where it is.
* *The start.* The first `SETTLING` readings only find the level, as F is unknown there; a namespace that
  neither knew before starts from nothing, and its level is exact.

The *rate* is the slope of D, with the told rises, over the shortest span of at least `SPAN_NS` in which
the rise is ten times the uncertainty, or the longest that is kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.reconciliation.engine.counting import PublishedCount

WINDOW_NS: Final = 120 * NANOS_PER_SECOND
"""For how long a level counts: longer than any client waits for a broker that stands still."""

SPAN_NS: Final = 4 * NANOS_PER_SECOND
"""The shortest span of a rate: two readings."""

SETTLING: Final = 3
"""Readings that find the level of a namespace that had traffic before."""

FLIGHT_NS: Final = NANOS_PER_SECOND // 4
"""The time that a message may take from the gate to the broker's counter where nothing is held up."""

LEAST: Final = 10
"""Messages of uncertainty in any case: the last ones of a client that has just begun."""

_READINGS_KEPT: Final = 16
_SURE: Final = 10
_QUIET_READINGS: Final = 3
_GAP_MAX_NS: Final = 30 * NANOS_PER_SECOND


class Rate(NamedTuple):
    """Escaped traffic per second, and by how much it may be wrong."""

    messages: float = 0.0
    bytes: float = 0.0
    uncertainty: float = 0.0


class _Reading(NamedTuple):
    at_ns: int
    #: Told so far, and the rise above the level.
    messages: int
    bytes: int


@dataclass(slots=True)
class _Level:
    """The highest difference of the window, less the told rises; see the head of the module."""

    #: Times and values; values fall from left to right.
    peaks: deque[tuple[int, int]]
    rise: int = 0

    def read(self, value: int, now_ns: int, *, settles: bool) -> None:
        """Take a difference; a rise above the level stays there until it is told."""
        peaks = self.peaks
        while len(peaks) > 1 and peaks[0][0] <= now_ns - WINDOW_NS:
            peaks.popleft()
        level = value if settles or not peaks else peaks[0][1]
        if settles and peaks:
            level = max(level, peaks[0][1])
        kept = min(value, level)
        while peaks and peaks[-1][1] <= kept:
            peaks.pop()
        peaks.append((now_ns, kept))
        self.rise = max(0, value - level)


class NamespaceAccount:
    """One namespace.

    Args:
        since_ns: the time of a reading at which neither broker nor gate knew the namespace; None if
            there was none, so that readings have to find the level.
    """

    __slots__ = (
        "_bytes", "_gap_ns", "_messages", "_passed", "_readings", "_settling", "_told_ns",
        "difference", "explained", "replicated", "told", "uncertainty",
    )  # fmt: skip

    def __init__(self, since_ns: int | None = None) -> None:
        self._settling = SETTLING if since_ns is None else 0
        #: Broker less gate, of all known increases.
        self.difference = PublishedCount()
        #: Told as escaped, told as replication, and both.
        self.told = self.replicated = self.explained = PublishedCount()
        #: By how many messages the level may be wrong.
        self.uncertainty = LEAST
        start = () if since_ns is None else ((since_ns, 0),)
        self._messages, self._bytes = _Level(deque(start)), _Level(deque(start))
        self._passed = 0.0
        self._readings: deque[_Reading] = deque(maxlen=_READINGS_KEPT)
        self._readings.extend(_Reading(at_ns, 0, 0) for at_ns, _ in start)
        #: When escaped traffic was told last, and how long before that the time before.
        self._told_ns: int | None = None
        self._gap_ns = 0

    def read(
        self,
        broker: PublishedCount | None,
        gate: PublishedCount | None,
        *,
        elapsed_ns: int,
        took_ns: int,
        now_ns: int,
    ) -> None:
        """Take the increases since the last reading.

        Args:
            broker: counted by the broker; None is unknown.
            gate: passed by the gate; None is unknown.
            elapsed_ns: since the last reading.
            took_ns: the time from the first byte of the broker's answer to the gate's.
            now_ns: the time.
        """
        if broker is not None and gate is not None:
            self.difference = PublishedCount(
                self.difference.messages + broker.messages - gate.messages,
                self.difference.bytes + broker.bytes - gate.bytes,
            )
        passed = 0.0 if gate is None else gate.messages / max(1, elapsed_ns)
        # Of two readings, as the level may be that of the one before.
        rate, self._passed = max(passed, self._passed), passed
        self.uncertainty = LEAST + round(rate * (took_ns + FLIGHT_NS))
        settles = self._settling > 0
        self._settling -= settles
        self._messages.read(
            self.difference.messages - self.explained.messages, now_ns, settles=settles
        )
        self._bytes.read(self.difference.bytes - self.explained.bytes, now_ns, settles=settles)
        self._readings.append(
            _Reading(
                now_ns,
                self.explained.messages + self._messages.rise,
                self.explained.bytes + self._bytes.rise,
            )
        )

    @property
    def excess(self) -> PublishedCount:
        """The rise to be told; nothing while it is within the uncertainty."""
        if self._messages.rise <= self.uncertainty:
            return PublishedCount()
        return PublishedCount(self._messages.rise, self._bytes.rise)

    def tell(self, replicated_permille: int, now_ns: int) -> PublishedCount:
        """Tell the excess; return the part of it that escaped.

        Args:
            replicated_permille: the part that geo-replication published, which is exempt.
            now_ns: the time.
        """
        excess = self.excess
        replicated = PublishedCount(*(each * replicated_permille // 1000 for each in excess))
        escaped = PublishedCount(
            excess.messages - replicated.messages, excess.bytes - replicated.bytes
        )
        self.explained = self.explained.plus(excess)
        self.replicated = self.replicated.plus(replicated)
        self.told = self.told.plus(escaped)
        self._messages.rise = self._bytes.rise = 0
        if escaped.messages:
            if self._told_ns is not None:
                self._gap_ns = min(_GAP_MAX_NS, now_ns - self._told_ns)
            self._told_ns = now_ns
        return escaped

    def escapes(self, interval_ns: int, now_ns: int) -> bool:
        """Return whether traffic goes round the gate now.

        Args:
            interval_ns: from one reading to the next.
            now_ns: the time.
        """
        if self._told_ns is None:
            return False
        quiet_ns = max(_QUIET_READINGS * interval_ns, 2 * self._gap_ns)
        return now_ns - self._told_ns < quiet_ns

    def rate(self, replicated_permille: int = 0) -> Rate:
        """Return the present rate of escaped traffic, less the part of geo-replication."""
        if len(self._readings) <= 1:
            return Rate()
        last = self._readings[-1]
        first = self._readings[0]
        for reading in reversed(self._readings):
            is_long = last.at_ns - reading.at_ns >= SPAN_NS
            if is_long and last.messages - reading.messages >= _SURE * self.uncertainty:
                first = reading
                break
        span_s = max(1, last.at_ns - first.at_ns) / NANOS_PER_SECOND
        part = (1000 - replicated_permille) / 1000
        return Rate(
            (last.messages - first.messages) / span_s * part,
            (last.bytes - first.bytes) / span_s * part,
            self.uncertainty / span_s,
        )

    def is_idle(self) -> bool:
        """Return whether neither broker nor gate counted anything in the readings that are kept."""
        return not self._passed and not any(
            was.messages != now.messages for was, now in pairwise(self._readings)
        )
