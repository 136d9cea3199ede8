"""Every group at a glance, and its recent past: what an overview and a chart are made from.

Whoever runs the core samples group after group (`Board.sample`), in small steps, since events wait
meanwhile; a page then costs the same with one reader as with a hundred. The board is bounded: it holds at
most `MAX_CELLS` numbers of the past, so with more groups and brokers the past is shorter
(`Board.kept_samples` says how long), and at most `KEPT_SAMPLES` of each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import Dimension
from coordinator.core.observing import is_observed
from coordinator.core.series import Series, SeriesView
from coordinator.core.settling import SETTLED_PERMILLE, Standing, residual_permille
from coordinator.core.state import CoordinatorState
from coordinator.core.usage_rows import UsageRow

KEPT_SAMPLES = 300
MAX_CELLS = 1_000_000
"""Columns times samples; a cell takes 16 bytes."""

_MIN_SAMPLES = 10
_NOBODY: Mapping[str, tuple[int, int]] = {}


@dataclass(frozen=True, slots=True)
class DimensionRow:
    """One limited dimension of a group, all brokers together.

    Args:
        limit: for the cluster, per second.
        admitted: by all brokers, per second.
        participants: the brokers that take part.
        throttled: those at which somebody waited in the last round, sorted.
        residual_permille: distance from being settled (settling.py); None when nobody knows.
    """

    limit: int
    admitted: int
    participants: int
    throttled: tuple[str, ...]
    residual_permille: int | None

    @property
    def used_permille(self) -> int:
        """What is admitted of the limit, in thousandths."""
        return self.admitted * 1000 // max(1, self.limit)


class GroupRow(NamedTuple):
    """A group at the time of its last sample; a tuple, as most are copied every second.

    What an overview of all groups sorts and counts by is found once, when the group is sampled.

    Args:
        group: its name.
        standing: how it stands.
        since_ns: since when.
        sampled_ns: when this was seen.
        dimensions: the limited ones.
        observed: whether its limits hold nothing back.
        foremost: the limited dimension of which most is used; None when nothing is limited.
        used_permille: of the foremost dimension's limit, in thousandths; 0 when nothing is limited.
        throttled: the brokers at which somebody waited for it, sorted; of an observed group none,
            whoever waits there.
    """

    group: str
    standing: Standing
    since_ns: int
    sampled_ns: int
    dimensions: Mapping[Dimension, DimensionRow]
    observed: bool
    foremost: Dimension | None
    used_permille: int
    throttled: tuple[str, ...]

    @property
    def is_used(self) -> bool:
        """Whether anybody takes part."""
        return any(row.participants for row in self.dimensions.values())


class Board:
    """The latest row of every group and its samples."""

    def __init__(self) -> None:
        self._rows: dict[str, GroupRow] = {}
        self._series: dict[tuple[str, Dimension], Series] = {}
        self._kept_samples = KEPT_SAMPLES

    @property
    def rows(self) -> Mapping[str, GroupRow]:
        """The latest row of every group."""
        return self._rows

    @property
    def kept_samples(self) -> int:
        """Samples that every group keeps, at least."""
        return self._kept_samples

    def begin(self, groups: AbstractSet[str]) -> None:
        """A pass over all groups begins: forget those that are gone, and make room for the others."""
        if not self._rows.keys() <= groups:
            self._rows = {name: row for name, row in self._rows.items() if name in groups}
            self._series = {key: series for key, series in self._series.items() if key[0] in groups}
        columns = self.columns()
        room = MAX_CELLS // max(1, columns)
        self._kept_samples = max(_MIN_SAMPLES, min(KEPT_SAMPLES, room))

    def columns(self) -> int:
        """Brokers that take part, summed over groups and dimensions: what a pass costs."""
        return sum(
            dimension.participants
            for row in self._rows.values()
            for dimension in row.dimensions.values()
        )

    def sample(self, state: CoordinatorState, name: str, now_ns: int) -> GroupRow | None:
        """Look at one group; None when it is gone."""
        group = (state.groups or {}).get(name)
        if group is None:
            return None
        dimensions = {
            dimension: self._sample_dimension(state, name, dimension, limit, now_ns)
            for dimension in Dimension
            if (limit := group.limits.of(dimension)) is not None
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
        """A sample of a group in which nobody takes part, and which is as it was at the last one."""
        row = self._rows[name] = self._rows[name]._replace(sampled_ns=now_ns)
        for dimension, figures in row.dimensions.items():
            series = self._series[name, dimension]
            series.add(now_ns, figures.limit, _NOBODY, self._kept_samples)

    def series(self, group: str, dimension: Dimension, after: int = -1) -> SeriesView:
        """The samples of a group after a certain one; none when the dimension is not limited."""
        return self._series.get((group, dimension), Series()).view(after)

    def totals(self, group: str, dimension: Dimension, count: int) -> tuple[int, ...]:
        """What all brokers admitted together, in the last ``count`` samples."""
        return self._series.get((group, dimension), Series()).totals(count)

    def _sample_dimension(
        self, state: CoordinatorState, name: str, dimension: Dimension, limit: int, now_ns: int
    ) -> DimensionRow:
        rows = state.usage.rows(name, dimension.monitoring_class)
        decision = state.decider.decisions.get((name, dimension))
        own = state.settings.broker
        sampled = {
            broker: (row.rate_of(dimension), _local_limit(row, dimension, limit))
            for broker, row in rows.items()
        }
        if own in sampled and decision is not None and decision.local_limit is not None:
            sampled[own] = (sampled[own][0], decision.local_limit)
        series = self._series.setdefault((name, dimension), Series())
        series.add(now_ns, limit, sampled, self._kept_samples)
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


def _standing(state: CoordinatorState, dimensions: Mapping[Dimension, DimensionRow]) -> Standing:
    if state.lifecycle is Lifecycle.DEGRADED:
        return Standing.DEGRADED
    if not dimensions:
        return Standing.UNLIMITED
    active = [row for row in dimensions.values() if row.participants]
    if not active:
        return Standing.IDLE
    off = any(
        row.residual_permille is None or row.residual_permille > SETTLED_PERMILLE for row in active
    )
    return Standing.CONVERGING if off else Standing.SETTLED
