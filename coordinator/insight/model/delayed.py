"""Delayed messages: those with ``deliver_at_time`` set, whatever its value.

A managed Pulsar counts them at a rate of their own, by whether ``deliver_at_time`` is set and not by its
value. A client that sets it without need therefore uses up a scarcer limit without benefit: a message
with ``deliverAfter(0)`` is a delayed one. Here that limit is the one of a resource group (configuration
key ``delayed_group``), which delayed messages count against beside all their other limits.

A gate can see that a time of delivery has no effect in these cases:

* it is not after the time of publishing, which stands beside it in the message (both are of the
  producer's clock, so no other clock is asked);
* the topic is not persistent;
* the subscription is Exclusive or Failover: only Shared and Key_Shared ones wait.

A gate cannot see two more cases: a namespace whose delayed delivery is switched off, and a time of
delivery that has passed when a consumer reaches the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Self

from coordinator.core.answer import answer

TOLD: Final = 5
"""The most warnings in an explanation; the others are in the list of topics."""

_ADVICE = "they count as delayed all the same, so leave deliverAfter and deliverAt out"


@answer
class DelayedTopic:
    """A topic to which delayed messages were published through this gate."""

    topic: str
    """as its producers write it"""
    messages: int
    """delayed ones, since the gate's start"""
    due: int
    """of them, due when they were published"""
    hasty_subscriptions: tuple[str, ...] = ()
    """Exclusive and Failover ones at this gate: they get delayed messages at once"""
    warnings: tuple[str, ...] = ()
    """what has no effect, in words"""

    @property
    def is_persistent(self) -> bool:
        """Return whether messages can wait there at all."""
        return not self.topic.startswith("non-persistent:")

    def warned(self) -> Self:
        """Return the same with warnings of the uses of delay without effect."""
        return replace(self, warnings=tuple(self._warnings()))

    def _warnings(self) -> Iterator[str]:
        if not self.is_persistent:
            yield (
                f"{self.topic} is not persistent, so its {self.messages:,} delayed messages were "
                f"delivered at once: {_ADVICE}."
            )
            return
        if self.due:
            yield (
                f"{self.due:,} of {self.messages:,} delayed messages to {self.topic} were due when they "
                f"were published: {_ADVICE}."
            )
        if self.hasty_subscriptions:
            names = ", ".join(self.hasty_subscriptions)
            yield (
                f"{names} of {self.topic}: Exclusive and Failover subscriptions get delayed messages at "
                "once; only Shared and Key_Shared ones wait."
            )


@answer
class DelayedView:
    """Messages published through this gate with deliver_at_time set to any value."""

    messages: int
    """since the gate's start"""
    due: int
    """of them, due when they were published, by their producers' clocks"""
    topics: tuple[DelayedTopic, ...]
    """those with most of what has no effect first"""
    group: str = ""
    """the resource group whose limit it counts against"""
    left_out: int = 0
    """messages to topics that are not told one by one"""

    def told(self, group: str, most: int) -> Self:
        """Return what is told of messages that count against a group, with at most ``most`` topics."""
        topics = sorted(
            (topic.warned() for topic in self.topics),
            key=lambda each: (not each.warnings, -each.due, -each.messages, each.topic),
        )
        shown = tuple(topics[:most])
        left_out = self.messages - sum(topic.messages for topic in shown)
        return replace(self, topics=shown, group=group, left_out=left_out)

    @property
    def not_persistent(self) -> int:
        """Return the number of messages to topics that are not persistent."""
        return sum(topic.messages for topic in self.topics if not topic.is_persistent)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return sentences on the counted messages and on those without effect, which explain the use."""
        counted = (
            f"Messages with deliver_at_time count here, whatever its value: {self.messages:,} at this "
            "gate since its start."
        )
        topics = sorted(self.topics, key=lambda topic: (-topic.due, topic.topic))
        warnings = [warning for topic in topics for warning in topic.warned().warnings]
        more = len(warnings[TOLD:])
        such = "warning" if more == 1 else "warnings"
        rest = (f"And {more:,} more such {such}: see /quota/v1/gate/delayed.",) if more else ()
        return (counted, *warnings[:TOLD], *rest)
