"""The bounds of one topic's dispatch rate: by its operator, its group, and other brokers' sidecars.

*What an operator has set* for the topic, or as the default of its namespace, is the most that it gets.

*Partitions* of a topic have one policy, and other brokers may serve some of them. Each sidecar lowers it
to what its broker can give, so the least counts, and raises it with care:

* to what each partition has if all of them share the group's limit of all brokers, at once, unless
  another sidecar has ever lowered it: if all want more, that is the right rate;
* beyond that by a quarter at a time, as far as its own part goes, and not before the others had the
  time to lower it;
* not at all for a while after another sidecar has lowered it: that is an *objection*. It counts twice as
  long each time, since a rate that is raised and lowered again lets too much pass each time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.rate_policy import LEAST, NO_RATE, PolicyRate, lower_of

_OBJECTED_NS: Final = 10 * NANOS_PER_SECOND
_OBJECTED_MAX_NS: Final = 640 * NANOS_PER_SECOND

_STEP_PERMILLE: Final = 1250
_STEP_NS: Final = 3 * NANOS_PER_SECOND
"""The time in which another sidecar sees a rise, and that it costs more than its part, and lowers it."""

_FOUND_FOR_NS: Final = 10 * NANOS_PER_SECOND
_KEPT_PERMILLE: Final = 750
"""For this time a rate that was found keeps this part."""

_WRITTEN_KEPT: Final = 4


@dataclass(slots=True)
class TopicPolicy:
    """The dispatch rate of a topic, as one sidecar knows it.

    Args:
        by_operator: the rate that an operator has set for it.
        partitions: how many it has; 0 if it is not partitioned.
        rate: as it was written or seen last; None if no sidecar has written one.
        is_own: whether this sidecar wrote it.
        changed_ns: when.
        found_ns: when this sidecar found the rate of another one, or of its own before a restart; None if
            it has written one since, or found none.
        idle_since_ns: since when it has no consumers here; None if it has.
    """

    by_operator: PolicyRate
    partitions: int = 0
    rate: PolicyRate | None = None
    is_own: bool = False
    changed_ns: int = 0
    found_ns: int | None = None
    idle_since_ns: int | None = None
    _objection: PolicyRate = NO_RATE
    _objected_until_ns: int = 0
    _objected_for_ns: int = 0
    _written: deque[PolicyRate] = field(default_factory=lambda: deque(maxlen=_WRITTEN_KEPT))

    def most(self, default: PolicyRate, whole: PolicyRate, now_ns: int) -> PolicyRate:
        """Return the highest rate that it may get.

        Args:
            default: that an operator has set for the topics of its namespace.
            whole: the limit of its group for all brokers together.
            now_ns: the time.
        """
        own = default if self.by_operator == NO_RATE else self.by_operator
        if not self.partitions:
            return own
        if now_ns < self._objected_until_ns:
            return lower_of(own, self._objection)
        step = _STEP_PERMILLE if now_ns - self.changed_ns >= _STEP_NS else 1000
        shares: list[int | None] = []
        for limit, rate in zip(whole, self.rate or NO_RATE, strict=True):
            equal = None if limit is None else max(LEAST, limit // self.partitions)
            if equal is not None and rate is not None:
                more = rate * step // 1000
                equal = more if self._objected_for_ns else max(equal, more)
            shares.append(equal)
        return lower_of(own, PolicyRate(*shares))

    def may_become(self, rate: PolicyRate, now_ns: int) -> bool:
        """Return whether it may be written now.

        A rate that was found is not lowered by much at first: the law does not know yet what the topic's
        consumers want here, as it has just moved, or the sidecar has just started.
        """
        if self.found_ns is None or now_ns - self.found_ns >= _FOUND_FOR_NS:
            return True
        return not any(
            before is not None and after is not None and after * 1000 < before * _KEPT_PERMILLE
            for before, after in zip(self.rate or NO_RATE, rate, strict=True)
        )

    def written(self, rate: PolicyRate, now_ns: int, *, is_own: bool) -> None:
        """Take the news that a sidecar has written a rate, this one or another."""
        self.rate, self.changed_ns, self.is_own = rate, now_ns, is_own
        self.found_ns = None
        self._written.append(rate)

    def seen(self, rate: PolicyRate, now_ns: int, *, is_sidecars: bool = False) -> bool:
        """Take the rate that it has now, and that is another one; tell whether an operator has set it.

        A rate of a topic without partitions that no sidecar has written of late is an operator's; a
        broker may still answer with one that was written before.

        Args:
            rate: as it is now.
            now_ns: the time.
            is_sidecars: whether it is a sidecar's in any case.
        """
        if self.partitions:
            self._object(rate, now_ns)
        by_operator = not self.partitions and not is_sidecars and rate not in self._written
        if by_operator:
            self.by_operator = rate
        self.written(rate, now_ns, is_own=False)
        return by_operator

    def _object(self, rate: PolicyRate, now_ns: int) -> None:
        if lower_of(rate, self.rate or NO_RATE) == rate:
            twice_ns = min(2 * self._objected_for_ns, _OBJECTED_MAX_NS)
            self._objected_for_ns = twice_ns or _OBJECTED_NS
            self._objected_until_ns = now_ns + self._objected_for_ns
            self._objection = rate
        else:
            self._objected_until_ns = 0
