"""The JSON of partitions' use of their limits."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from admin_api.schemas.definitions import CamelModel
from coordinator.core.model import Dimension
from coordinator.insight.model.answer import to_wire
from coordinator.insight.model.seconds import MinuteView
from coordinator.insight.model.specification import ADVISED, partitions_for
from coordinator.insight.shell.partition_meter import PartitionView


class PartitionBody(CamelModel):
    """One partition in the last minute; a topic without partitions is one."""

    topic: str
    used: float = Field(description="the largest part of a limit that a second used")
    limits: dict[str, int] = Field(description="of each partition; -1 = not limited")
    minutes: dict[str, MinuteView] = Field(description="by dimension that is limited")
    partitions: int = Field(description="of its topic; 0 = not asked, since it needs no advice")
    advised_partitions: int = Field(description="that would do; 0 = no advice")
    advice: str

    @classmethod
    def of(cls, view: PartitionView, partitions: int) -> Self:
        """Write one partition, with advice for a topic of this many partitions; for 0, without."""
        dimension = view.busiest
        advised, sentence = 0, ""
        if dimension is not None and partitions and view.used > ADVISED:
            limit = view.limits.of(dimension) or 0
            advised = partitions_for(view.minutes[dimension].peak_second * partitions, limit)
            advised = max(advised, partitions)
            sentence = _sentence(view, dimension, partitions, advised)
        return cls(
            topic=view.topic,
            used=view.used,
            limits={each.value: to_wire(view.limits.of(each)) for each in Dimension},
            minutes={each.value: minute for each, minute in view.minutes.items()},
            partitions=partitions,
            advised_partitions=advised,
            advice=sentence,
        )


def _sentence(view: PartitionView, dimension: Dimension, partitions: int, advised: int) -> str:
    return (
        f"In its busiest second this partition used {view.used:.0%} of its {dimension.value}: with "
        f"{advised} partitions instead of {partitions} each would use {ADVISED:.0%} at most."
    )
