"""The JSON of a story: which event arrived when, and what was decided of it."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from admin_api.schemas import CamelModel, to_wire
from coordinator.insight.model.story import StoryDecision, StoryEvent, StoryView

_NANOS_PER_MILLI = 1_000_000


class StoryDecisionBody(CamelModel):
    """A decision on this sidecar's own limit in one dimension."""

    dimension: str
    limit_before: int = Field(
        description="as the story told it last, per second; -1 = not limited, or the first decision"
    )
    local_limit: int = Field(description="in force from then on, per second; -1 = not limited")
    binding: str = Field(description="the cause of the limit, as in the explanation")
    sentence: str = Field(description="the decision, the demands that changed, and the reason")

    @classmethod
    def of(cls, decision: StoryDecision) -> Self:
        """Write one decision."""
        return cls(
            dimension=decision.dimension.value,
            limit_before=to_wire(decision.limit_before),
            local_limit=to_wire(decision.local_limit),
            binding=decision.binding.value,
            sentence=decision.sentence,
        )


class StoryEventBody(CamelModel):
    """An event that this sidecar handled."""

    number: int = Field(description="grows with every event that is kept, of any group")
    age_millis: int = Field(description="since the sidecar handled it")
    event: str = Field(description="a sentence")
    decisions: list[StoryDecisionBody] = Field(
        description="on the group's limits, in all dimensions; empty if they stayed as they were"
    )

    @classmethod
    def of(cls, event: StoryEvent, now_ns: int) -> Self:
        """Write one event."""
        return cls(
            number=event.number,
            age_millis=(now_ns - event.at_ns) // _NANOS_PER_MILLI,
            event=event.event,
            decisions=[StoryDecisionBody.of(decision) for decision in event.decisions],
        )


class StoryBody(CamelModel):
    """The events that concern a group, of all dimensions, oldest first."""

    beginning: str = Field(description="since when nothing is missing, as a sentence")
    events: list[StoryEventBody] = Field(description="the last ones, at most 100")

    @classmethod
    def of(cls, view: StoryView, now_ns: int) -> Self:
        """Write one story."""
        return cls(
            beginning=view.beginning(now_ns),
            events=[StoryEventBody.of(event, now_ns) for event in view.events],
        )
