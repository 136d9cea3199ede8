"""The latest state of every group and its recent past: the input of an overview and of a chart.

The shell samples group after group (`Board.sample`), in small steps, since events wait meanwhile; a page
then costs the same with one reader as with a hundred. The board is bounded: it holds at most `MAX_CELLS`
numbers of the past, so with more groups and brokers the past is shorter (`Board.kept_samples` says how
long), and at most `KEPT_SAMPLES` of each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

from coordinator.core.demand.observing import is_observed
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import Dimension, LimitKey, Rate
from coordinator.core.state import CoordinatorState
from coordinator.core.usage.rows import UsageRow
from coordinator.insight.model.series import SampleSeries, SeriesView
from coordinator.insight.model.settling import SETTLED_PERMILLE, GroupStatus, residual_permille

KEPT_SAMPLES = 300
MAX_CELLS = 1_000_000
"""Columns times samples; a cell takes 16 bytes."""

_MIN_SAMPLES = 10
_LEAST_LIMIT: Final = Fraction(1, 1_000)
_NO_BROKERS: Mapping[str, tuple[int, int]] = {}


@dataclass(frozen=True, slots=True)
class DimensionRow:
    """One limited dimension of a group, all brokers together.

    Args:
        limit: for the cluster, per second.
        admitted: by all brokers, per second.
        participants: the brokers that take part.
        throttled: the brokers that were throttled in the last round, sorted.
        residual_permille: distance from being settled (settling.py); None if it is unknown.
    """

    limit: Rate
    admitted: int
    participants: int
    throttled: tuple[str, ...]
    residual_permille: int | None

    @property
    def used_permille(self) -> int:
        """Return the used part of the limit, in thousandths."""
        return int(self.admitted * 1000 // max(_LEAST_LIMIT, self.limit))


class GroupRow(NamedTuple):
    """A group at the time of its last sample; a tuple, as most are copied every second.

    The keys by which an overview of all groups sorts and counts are computed once, at the sample.

    Args:
        group: its name.
        standing: its status.
        since_ns: since when it has this status.
        sampled_ns: the time of the sample.
        dimensions: the limited ones.
        observed: whether its limits are not enforced.
        foremost: the limited dimension with the highest use; None when nothing is limited.
        used_permille: of the foremost dimension's limit, in thousandths; 0 when nothing is limited.
        throttled: the brokers that were throttled by it, sorted; empty for an observed group.
    """

    group: str
    standing: GroupStatus
    since_ns: int
    sampled_ns: int
    dimensions: Mapping[Dimension, DimensionRow]
    observed: bool
    foremost: Dimension | None
    used_permille: int
    throttled: tuple[str, ...]

    @property
    def is_used(self) -> bool:
        """Return whether the group has participants."""
        return any(row.participants for row in self.dimensions.values())


class Board:
    """The latest row of every group and its samples."""

    def __init__(self) -> None:
        self._rows: dict[str, GroupRow] = {}
        self._series: dict[LimitKey, SampleSeries] = {}
        self._kept_samples = KEPT_SAMPLES

    @property
    def rows(self) -> Mapping[str, GroupRow]:
        """Return the latest row of every group."""
        return self._rows

    @property
    def kept_samples(self) -> int:
        """Return the least number of samples that every group keeps."""
        return self._kept_samples

    def begin(self, groups: AbstractSet[str]) -> None:
        """Begin a pass over all groups: forget deleted ones, and make room for the others."""
        if not self._rows.keys() <= groups:
            self._rows = {name: row for name, row in self._rows.items() if name in groups}
            self._series = {key: series for key, series in self._series.items() if key[0] in groups}
        columns = self.columns()
        room = MAX_CELLS // max(1, columns)
        self._kept_samples = max(_MIN_SAMPLES, min(KEPT_SAMPLES, room))

    def columns(self) -> int:
        """Return the participants, summed over groups and dimensions: the cost of a pass."""
        return sum(
            dimension.participants
            for row in self._rows.values()
            for dimension in row.dimensions.values()
        )

    def sample(self, state: CoordinatorState, name: str, now_ns: int) -> GroupRow | None:
        """Sample one group; return None if it is deleted."""
        group = (state.groups or {}).get(name)
        if group is None:
            return None
        dimensions = {
            dimension: self._sample_dimension(state, name, dimension, limit, now_ns)
            for dimension in Dimension
            if (limit := group.exact_limits.of(dimension)) is not None
        }
        for dimension in Dimension:
            if dimension not in dimensions:
                self._series.pop((name, dimension), None)
        standing = _standing(state, dimensions)
        before = self._rows.get(name)
        since_ns = before.since_ns if before and before.standing is standing else now_ns
        used = {dimension: row.used_permille for dimension, row in dimensions.items()}
        observed = is_observed(group)
        waited = {broker for row in dimensions.values() for broker in row.throttled}
        row = GroupRow(
            group=name,
            standing=standing,
            since_ns=since_ns,
            sampled_ns=now_ns,
            dimensions=dimensions,
            observed=observed,
            foremost=max(used, key=used.__getitem__, default=None),
            used_permille=max(used.values(), default=0),
            throttled=() if observed else tuple(sorted(waited)),
        )
        self._rows[name] = row
        return row

    def rest(self, name: str, now_ns: int) -> None:
        """Add a sample of a group that has no participants and has not changed since the last one."""
        row = self._rows[name] = self._rows[name]._replace(sampled_ns=now_ns)
        for dimension, figures in row.dimensions.items():
            series = self._series[name, dimension]
            series.add(now_ns, ceil(figures.limit), _NO_BROKERS, self._kept_samples)

    def series(self, group: str, dimension: Dimension, after: int = -1) -> SeriesView:
        """Return the samples of a group after a certain one; none when the dimension is not limited."""
        return self._series.get((group, dimension), SampleSeries()).view(after)

    def totals(self, group: str, dimension: Dimension, count: int) -> tuple[int, ...]:
        """Return the rates admitted by all brokers together, in the last ``count`` samples."""
        return self._series.get((group, dimension), SampleSeries()).totals(count)

    def _sample_dimension(
        self, state: CoordinatorState, name: str, dimension: Dimension, limit: Rate, now_ns: int
    ) -> DimensionRow:
        rows = state.usage.rows(name, dimension.monitoring_class)
        decision = state.decider.decisions.get((name, dimension))
        own, whole = state.settings.broker, ceil(limit)
        sampled = {
            broker: (row.rate_of(dimension), _local_limit(row, dimension, whole))
            for broker, row in rows.items()
        }
        if own in sampled and decision is not None and decision.local_limit is not None:
            sampled[own] = (sampled[own][0], decision.local_limit)
        series = self._series.setdefault((name, dimension), SampleSeries())
        series.add(now_ns, whole, sampled, self._kept_samples)
        waited = state.settings.throttled_permille
        return DimensionRow(
            limit=limit,
            admitted=sum(admitted for admitted, _ in sampled.values()),
            participants=len(rows),
            throttled=tuple(
                broker
                for broker, row in rows.items()
                if row.usage.throttled_permille_of(dimension.unit) > waited
            ),
            residual_permille=residual_permille(state, name, dimension),
        )


def _local_limit(row: UsageRow, dimension: Dimension, limit: int) -> int:
    announced = row.usage.limit_of(dimension.unit)
    return limit if announced is None else announced


def _standing(state: CoordinatorState, dimensions: Mapping[Dimension, DimensionRow]) -> GroupStatus:
    if state.lifecycle is Lifecycle.DEGRADED:
        return GroupStatus.DEGRADED
    if not dimensions:
        return GroupStatus.UNLIMITED
    active = [row for row in dimensions.values() if row.participants]
    if not active:
        return GroupStatus.IDLE
    off = any(
        row.residual_permille is None or row.residual_permille > SETTLED_PERMILLE for row in active
    )
    return GroupStatus.CONVERGING if off else GroupStatus.SETTLED
