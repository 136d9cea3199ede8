"""Escaped traffic of one namespace and class, computed from the increases that broker and gate counted.

*The unit.* Bytes decide. Both ends count the same bytes, to the byte, of plain, batched, compressed,
chunked and transactional traffic, published and dispatched (tried on 4.2.4): those of headers and payload
on the wire, which no client can misstate. Messages are what clients claim: a SEND of 143 bytes whose
command says a million is a million to the broker and 16 to the gate; one whose metadata say 40,000 is one
to the broker and up to 40,000 to the gate. So messages are told beside the bytes, as far as the claims
let them be known, and neither make an escape nor hide one.

*The rule.* Let B be what the broker counted in a namespace, G what the gate passed, E what escaped (took
another way), F what is in flight between the two and L what was lost there with a connection. The
*difference* is

    D = B - G = E - F - L  of publishing, where the gate counts first,
    D = B - G = E + F + L  of dispatch, where the broker does.

E only grows. Of publishing F and L only subtract, so a rise of D above its highest value is escaped
traffic, but for what was in flight at that value. Of dispatch F makes D rise and then fall back. The
account keeps the highest D of the last `WINDOW_NS` (the *level*), and tells a rise above it that two
readings in a row have seen and that is larger than the *uncertainty*. A told rise is subtracted from D,
so that D is back at the level; a smaller one stays above it and adds to the next. Nothing is therefore
told twice, and a slow leak is told late, not never.

* *Skew.* The gate is read after the broker, so G has some bytes more than B could have: they can hide
  traffic for one reading, but not invent any.
* *Losses* of publishing draw D down for good. When the old level leaves the window, the highest value
  since then takes its place: traffic is told again after at most `WINDOW_NS`. A SEND that the broker
  refuses, such as one with a wrong checksum, is such a loss: it hides no more than the gate has charged
  for nothing. So is the end of a subscription, which the broker does not list any more; what that would
  hide is in the row `ENDED` (counting.py).
* *Dispatch that does not arrive* is told as escaped: what waits for a consumer that has stopped reading,
  or was lost with its connection. Of a consumer that stopped it was 11 MB in a trial (a read of the
  broker's, and the buffers of sockets), of one that reads it is hardly anything; it does not *go on*.
* *Unknown increases* (counting.py) leave D where it is.
* *The start.* The first `SETTLING` readings only find the level, as F is unknown there; a namespace that
  neither knew before starts from nothing, and its level is exact.

The *rate* is the slope of D, with the told rises, over the shortest span of at least `SPAN_NS` in which
the rise is ten times the uncertainty, or the longest that is kept. Escaped traffic *goes on* once it was
told twice within `GAP_MAX_NS`, until it is not told for some readings.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.reconciliation.engine.counting import NOTHING, Volume

WINDOW_NS: Final = 120 * NANOS_PER_SECOND
"""For how long a level counts: longer than any client waits for a broker that stands still."""

SPAN_NS: Final = 4 * NANOS_PER_SECOND
"""The shortest span of a rate: two readings."""

SETTLING: Final = 3
"""Readings that find the level of a namespace that had traffic before."""

FLIGHT_NS: Final = NANOS_PER_SECOND // 4
"""The time that bytes may take from one end to the other where nothing is held up."""

LEAST: Final = 1_000
"""Bytes of uncertainty in any case: the last messages of a client that has just begun."""

GAP_MAX_NS: Final = 30 * NANOS_PER_SECOND
"""The longest time between two told rises of traffic that goes on."""

_READINGS_KEPT: Final = 16
_SURE: Final = 10
_QUIET_READINGS: Final = 3


class Rate(NamedTuple):
    """Escaped traffic per second."""

    messages: float = 0.0
    bytes: float = 0.0


class _Reading(NamedTuple):
    at_ns: int
    risen: Volume


@dataclass(slots=True)
class _Level:
    """The highest difference of the window, less the told rises; see the head of the module."""

    #: Times and values; values fall from left to right.
    peaks: deque[tuple[int, int]] = field(default_factory=deque)
    #: Above the level, at this reading and at the one before.
    rise: int = 0
    before: int = 0

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
        self.before, self.rise = self.rise, max(0, value - level)

    @property
    def lasting(self) -> int:
        """The part of the rise that both readings saw."""
        return min(self.before, self.rise)

    def take(self) -> int:
        """Return the lasting part of the rise; what is left is what this reading alone saw."""
        taken = self.lasting
        self.before -= taken
        self.rise -= taken
        return taken


class NamespaceAccount:
    """One namespace and class.

    Args:
        since_ns: the time of a reading at which neither broker nor gate knew the namespace; None if
            there was none, so that readings have to find the level.
    """

    __slots__ = (
        "_bytes", "_gap_ns", "_messages", "_passed", "_readings", "_settling", "_told_ns",
        "difference", "told", "uncertainty",
    )  # fmt: skip

    def __init__(self, since_ns: int | None = None) -> None:
        self._settling = SETTLING if since_ns is None else 0
        #: Broker less gate, of all known increases.
        self.difference = NOTHING
        #: Told as escaped.
        self.told = NOTHING
        #: By how many bytes the level may be wrong.
        self.uncertainty = LEAST
        self._messages, self._bytes = _Level(), _Level()
        self._passed = 0.0
        self._readings: deque[_Reading] = deque(maxlen=_READINGS_KEPT)
        if since_ns is not None:
            for level in (self._messages, self._bytes):
                level.peaks.append((since_ns, 0))
            self._readings.append(_Reading(since_ns, NOTHING))
        #: When escaped traffic was told last, and how long before that the time before; 0 is never.
        self._told_ns: int | None = None
        self._gap_ns = 0

    def read(
        self,
        broker: Volume | None,
        gate: Volume | None,
        *,
        elapsed_ns: int,
        took_ns: int,
        now_ns: int,
    ) -> Volume:
        """Take the increases since the last reading; return what is told as escaped.

        Args:
            broker: counted by the broker; None is unknown.
            gate: passed by the gate; None is unknown.
            elapsed_ns: since the last reading.
            took_ns: the time from the first byte of the broker's answer to the gate's.
            now_ns: the time.
        """
        if broker is not None and gate is not None:
            self.difference = self.difference.plus(broker).less(gate)
        passed = 0.0 if gate is None else max(0, gate.bytes) / max(1, elapsed_ns)
        # Of two readings, as the level may be that of the one before.
        rate, self._passed = max(passed, self._passed), passed
        self.uncertainty = LEAST + round(rate * (took_ns + FLIGHT_NS))
        settles = self._settling > 0
        self._settling -= settles
        rest = self.difference.less(self.told)
        self._messages.read(rest.messages, now_ns, settles=settles)
        self._bytes.read(rest.bytes, now_ns, settles=settles)
        self._readings.append(_Reading(now_ns, self.risen))
        if self._bytes.lasting <= self.uncertainty:
            return NOTHING
        escaped = Volume(self._messages.take(), self._bytes.take())
        self.told = self.told.plus(escaped)
        gap_ns = 0 if self._told_ns is None else now_ns - self._told_ns
        self._gap_ns = gap_ns if gap_ns <= GAP_MAX_NS else 0
        self._told_ns = now_ns
        return escaped

    @property
    def risen(self) -> Volume:
        """Told so far, and the rise above the level."""
        return self.told.plus(Volume(self._messages.rise, self._bytes.rise))

    def goes_on(self, interval_ns: int, now_ns: int) -> bool:
        """Return whether traffic goes round the gate now, again and again.

        Args:
            interval_ns: from one reading to the next.
            now_ns: the time.
        """
        if self._told_ns is None or not self._gap_ns:
            return False
        return now_ns - self._told_ns < max(_QUIET_READINGS * interval_ns, 2 * self._gap_ns)

    def rate(self) -> Rate:
        """Return the present rate of escaped traffic."""
        if len(self._readings) <= 1:
            return Rate()
        last = self._readings[-1]
        first = self._readings[0]
        for reading in reversed(self._readings):
            is_long = last.at_ns - reading.at_ns >= SPAN_NS
            if is_long and last.risen.bytes - reading.risen.bytes >= _SURE * self.uncertainty:
                first = reading
                break
        span_s = max(1, last.at_ns - first.at_ns) / NANOS_PER_SECOND
        risen = last.risen.less(first.risen)
        return Rate(max(0, risen.messages) / span_s, max(0, risen.bytes) / span_s)

    def is_idle(self) -> bool:
        """Return whether the gate passed nothing at the last reading, and nothing rose in those kept."""
        return not self._passed and len({reading.risen for reading in self._readings}) <= 1
