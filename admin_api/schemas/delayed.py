"""The JSON of delayed messages at a gate."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from admin_api.schemas.definitions import CamelModel
from coordinator.insight.model.delayed import DelayedTopic, DelayedView


class DelayedTopicBody(CamelModel):
    """A topic to which delayed messages were published."""

    topic: str
    messages: int = Field(description="delayed ones, since the gate's start")
    due: int = Field(description="of them, due when they were published")
    hasty_subscriptions: list[str] = Field(
        description="Exclusive and Failover ones at this gate: they get delayed messages at once"
    )
    warnings: list[str] = Field(description="what has no effect, in words")

    @classmethod
    def of(cls, topic: DelayedTopic) -> Self:
        """Write one topic."""
        return cls(
            topic=topic.topic,
            messages=topic.messages,
            due=topic.due,
            hasty_subscriptions=list(topic.hasty_subscriptions),
            warnings=list(topic.warnings),
        )


class DelayedBody(CamelModel):
    """Messages published through this gate with deliver_at_time set to any value."""

    group: str = Field(description="the resource group whose limit it counts against")
    messages: int = Field(description="since the gate's start")
    due: int = Field(
        description="of them, due when they were published, by their producers' clocks"
    )
    topics: list[DelayedTopicBody] = Field(
        description="those with most of what has no effect first"
    )
    left_out: int = Field(description="messages to topics that are not told one by one")

    @classmethod
    def of(cls, group: str, view: DelayedView, topics_max: int) -> Self:
        """Write a gate's counts, with at most this many topics."""
        topics = sorted(
            view.topics, key=lambda each: (not each.warnings, -each.due, -each.messages, each.topic)
        )
        shown = topics[:topics_max]
        return cls(
            group=group,
            messages=view.messages,
            due=view.due,
            topics=[DelayedTopicBody.of(topic) for topic in shown],
            left_out=view.messages - sum(topic.messages for topic in shown),
        )
