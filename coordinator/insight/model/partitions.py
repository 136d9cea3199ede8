"""The use of each partition's limit in the last minute, and advice on how many partitions would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from coordinator.core.answer import answer
from coordinator.core.model import AnyRates, Dimension
from coordinator.insight.model.rates import Limits
from coordinator.insight.model.seconds import MinuteView
from coordinator.insight.model.specification import ADVISED, partitions_for


@answer
class PartitionView:
    """One partition in the last minute; a topic without partitions is one."""

    topic: str
    used: float
    """the largest part of a limit that a second used"""
    limits: Limits
    """of each partition; -1 = not limited"""
    minutes: Mapping[Dimension, MinuteView]
    """by dimension that is limited"""
    partitions: int = 0
    """of its topic; 0 = not asked, since it needs no advice"""
    advised_partitions: int = 0
    """that would do; 0 = no advice"""
    advice: str = ""

    @classmethod
    def of(cls, topic: str, limits: AnyRates, minutes: Mapping[Dimension, MinuteView]) -> Self:
        """Return a partition without advice."""
        parts = (_used(limits, each, minute) for each, minute in minutes.items())
        return cls(topic, max(parts, default=0.0), limits, minutes)

    @property
    def busiest(self) -> Dimension | None:
        """Return the dimension of the limit of which most is used."""
        return max(
            self.minutes,
            key=lambda each: _used(self.limits, each, self.minutes[each]),
            default=None,
        )

    def advised(self, partitions: int) -> Self:
        """Return the same with advice for a topic of this many partitions."""
        dimension = self.busiest
        if dimension is None or not partitions or self.used <= ADVISED:
            return replace(self, partitions=partitions)
        limit = int(self.limits.of(dimension) or 0)
        peak = self.minutes[dimension].peak_second
        wanted = max(partitions, partitions_for(peak * partitions, limit))
        return replace(
            self,
            partitions=partitions,
            advised_partitions=wanted,
            advice=(
                f"In its busiest second this partition used {self.used:.0%} of its "
                f"{dimension.value}: with {wanted} partitions instead of {partitions} each would use "
                f"{ADVISED:.0%} at most."
            ),
        )


def _used(limits: AnyRates, dimension: Dimension, minute: MinuteView) -> float:
    """Return the part of a limit that the busiest second used."""
    limit = limits.of(dimension)
    return float(minute.peak_second / limit) if limit else 1.0
