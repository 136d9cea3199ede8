"""The JSON of the dashboard: groups at a glance, their recent past, events, and previews.

Units and -1 as in `definitions`. Times are ages in milliseconds, counted back from the answer on the
answering sidecar's own clock, so that no two clocks have to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from admin_api.schemas.definitions import CamelModel
from coordinator.core.answer import Number
from coordinator.core.model import NANOS_PER_MILLI, Dimension
from coordinator.core.rates import number_of
from coordinator.insight.model.board import DimensionRow, GroupRow
from coordinator.insight.model.bounded_events import LoggedEvent
from coordinator.insight.model.series import SeriesView

NAMED_BROKERS = 8
"""Throttled brokers that a row names; the rest are counted."""


def age_millis(now_ns: int, at_ns: int) -> int:
    """Return the age of an event, in milliseconds."""
    return max(0, now_ns - at_ns) // NANOS_PER_MILLI


class DimensionBody(CamelModel):
    """One limited dimension, all brokers together."""

    dimension: str
    limit: Number = Field(description="for the cluster, per second")
    admitted: int = Field(description="by all brokers, per second")
    used: float = Field(description="admitted of the limit, 0 to 1 and, for a moment, more")
    participants: int = Field(description="brokers that take part")
    throttled: int = Field(description="brokers at which clients waited in the last round")
    residual: float | None = Field(
        description="distance of the broker furthest from its target, in parts of C/N; "
        "null = not known"
    )

    @classmethod
    def of(cls, dimension: Dimension, row: DimensionRow) -> Self:
        """Write one dimension."""
        off = row.residual_permille
        return cls(
            dimension=dimension.value,
            limit=number_of(row.limit),
            admitted=row.admitted,
            used=row.used_permille / 1000,
            participants=row.participants,
            throttled=len(row.throttled),
            residual=None if off is None else off / 1000,
        )


class GroupRowBody(CamelModel):
    """One group at a glance."""

    group: str
    standing: str = Field(description="settled, converging, degraded, idle or unlimited")
    standing_age_millis: int
    sample_age_millis: int
    foremost: str | None = Field(description="the limited dimension of which most is used")
    dimensions: list[DimensionBody]
    observed: bool = Field(description="its limits are tried out and hold nothing back")
    throttled: list[str] = Field(description="the first throttled brokers by name")
    throttled_count: int
    escaping_bytes: int = Field(
        description="bytes per second round the answering sidecar's gate, published and dispatched"
    )
    recent: list[int] = Field(description="admitted of the foremost dimension, oldest first")

    @classmethod
    def of(
        cls, row: GroupRow, recent: Sequence[int], now_ns: int, escaping_bytes: float = 0.0
    ) -> Self:
        """Write one row."""
        return cls(
            group=row.group,
            standing=row.standing.value,
            standing_age_millis=age_millis(now_ns, row.since_ns),
            sample_age_millis=age_millis(now_ns, row.sampled_ns),
            foremost=None if row.foremost is None else row.foremost.value,
            dimensions=[DimensionBody.of(*item) for item in row.dimensions.items()],
            observed=row.observed,
            throttled=list(row.throttled[:NAMED_BROKERS]),
            throttled_count=len(row.throttled),
            escaping_bytes=round(escaping_bytes),
            recent=list(recent),
        )


class Overview(CamelModel):
    """A page of groups, and the facts about all of them."""

    broker: str = Field(description="whose sidecar answers")
    state: str
    members: int
    period_millis: int = Field(description="from one look at a group to the next")
    age_millis: int = Field(description="since all groups were looked at")
    groups: int = Field(description="all there are")
    matching: int = Field(description="those that the filter lets through, on all pages")
    standings: dict[str, int] = Field(description="standing to the number of groups")
    throttled: int = Field(description="groups of which a broker is throttled")
    attention: list[str] = Field(description="what needs a person, in sentences")
    rows: list[GroupRowBody]


class Mark(CamelModel):
    """An event, as a mark on a time axis."""

    number: int
    age_millis: int
    kind: str
    subject: str
    text: str

    @classmethod
    def of(cls, note: LoggedEvent, now_ns: int) -> Self:
        """Write one note: an event with a kind."""
        assert note.kind is not None
        return cls(
            number=note.number,
            age_millis=age_millis(now_ns, note.at_ns),
            kind=note.kind.value,
            subject=note.subject,
            text=note.text,
        )


class HistoryBody(CamelModel):
    """The recent past of one group and dimension, in samples; columns are of one length."""

    group: str
    dimension: str
    first: int = Field(description="number of the first sample; ask for those after the last")
    ages_millis: list[int]
    limit: list[int] = Field(description="for the cluster, per second")
    admitted: dict[str, list[int | None]] = Field(description="by broker; null = took no part")
    local_limits: dict[str, list[int | None]] = Field(description="by broker; null = took no part")
    marks: list[Mark] = Field(description="of the time that the samples cover")

    @classmethod
    def of(
        cls, group: str, dimension: Dimension, view: SeriesView, marks: list[Mark], now_ns: int
    ) -> Self:
        """Write the samples."""
        return cls(
            group=group,
            dimension=dimension.value,
            first=view.first,
            ages_millis=[age_millis(now_ns, at_ns) for at_ns in view.times_ns],
            limit=list(view.limits),
            admitted={name: list(column) for name, column in view.admitted.items()},
            local_limits={name: list(column) for name, column in view.local_limits.items()},
            marks=marks,
        )


class Choices(CamelModel):
    """The names that a group's settings may have."""

    law: list[str]
    weights: list[str]
    overshoot_policy: list[str]
    partition_policy: list[str]
    enforcement: list[str]
    on_limit: list[str]
