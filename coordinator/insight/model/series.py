"""The recent past of one group and dimension: samples in step, one column per broker.

A sample holds the admitted rate and the local limit, per second, at one moment, broker by broker. Columns
are arrays of 8 bytes a number, since there are many: a thousand groups on five brokers each are 5,000
columns. A broker that appears later is absent before, one that is gone is absent from then on, and one
that is absent throughout is forgotten.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ABSENT = -1
"""A broker took no part when the sample was taken; rates are never negative."""

_SLACK_PERMILLE = 250


@dataclass(frozen=True, slots=True)
class SeriesView:
    """A copy of the samples after a certain one.

    Args:
        first: the number of the first sample; samples are counted from 0.
        times_ns: the time of each.
        limits: the group's limit for the cluster.
        admitted: by broker; None where it took no part.
        local_limits: by broker; None where it took no part.
    """

    first: int
    times_ns: tuple[int, ...]
    limits: tuple[int, ...]
    admitted: Mapping[str, tuple[int | None, ...]]
    local_limits: Mapping[str, tuple[int | None, ...]]


@dataclass(slots=True)
class _Columns:
    admitted: array[int]
    local_limits: array[int]


@dataclass(slots=True)
class SampleSeries:
    """Samples of one group and dimension; at most ``keep`` and a quarter more of them."""

    _times_ns: array[int] = field(default_factory=lambda: array("q"))
    _limits: array[int] = field(default_factory=lambda: array("q"))
    _brokers: dict[str, _Columns] = field(default_factory=dict)
    _dropped: int = 0

    def add(self, now_ns: int, limit: int, rows: Mapping[str, tuple[int, int]], keep: int) -> None:
        """Add a sample: broker to admitted rate and local limit; older ones than ``keep`` may go."""
        length = len(self._times_ns)
        for broker in rows:
            if broker not in self._brokers:
                before = [ABSENT] * length
                self._brokers[broker] = _Columns(array("q", before), array("q", before))
        self._times_ns.append(now_ns)
        self._limits.append(limit)
        for broker, columns in self._brokers.items():
            admitted, local = rows.get(broker, (ABSENT, ABSENT))
            columns.admitted.append(admitted)
            columns.local_limits.append(local)
        if length + 1 > keep + keep * _SLACK_PERMILLE // 1000:
            self._drop(length + 1 - keep)

    def view(self, after: int = -1) -> SeriesView:
        """Return the samples with a number above ``after``; all, if no sample has that number yet."""
        newest = self._dropped + len(self._times_ns) - 1
        # A higher number is of an earlier process, or of a group that was deleted and made anew.
        start = max(0, after + 1 - self._dropped) if after <= newest else 0
        present = sorted(self._brokers)
        return SeriesView(
            first=self._dropped + start,
            times_ns=tuple(self._times_ns[start:]),
            limits=tuple(self._limits[start:]),
            admitted={name: _shown(self._brokers[name].admitted[start:]) for name in present},
            local_limits={
                name: _shown(self._brokers[name].local_limits[start:]) for name in present
            },
        )

    def totals(self, count: int) -> tuple[int, ...]:
        """Return the rates admitted by all brokers together, in the last ``count`` samples."""
        columns = [columns.admitted[-count:] for columns in self._brokers.values()]
        if not columns:
            return (0,) * len(self._times_ns[-count:])
        return tuple(sum(max(0, rate) for rate in sample) for sample in zip(*columns, strict=True))

    def _drop(self, count: int) -> None:
        self._dropped += count
        del self._times_ns[:count]
        del self._limits[:count]
        for broker, columns in list(self._brokers.items()):
            del columns.admitted[:count]
            del columns.local_limits[:count]
            if columns.admitted.count(ABSENT) == len(columns.admitted):
                del self._brokers[broker]


def _shown(rates: Sequence[int]) -> tuple[int | None, ...]:
    return tuple(None if rate == ABSENT else rate for rate in rates)
