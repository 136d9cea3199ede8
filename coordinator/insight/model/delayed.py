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

from dataclasses import dataclass
from typing import Final

TOLD: Final = 5
"""The most warnings in an explanation; the others are in the list of topics."""

_ADVICE = "they count as delayed all the same, so leave deliverAfter and deliverAt out"


@dataclass(frozen=True, slots=True)
class DelayedTopic:
    """A topic to which delayed messages were published through this gate.

    Args:
        topic: its name, as its producers write it.
        messages: delayed ones, since the gate's start.
        due: of them, how many were due when they were published.
        hasty_subscriptions: those with a consumer at this gate that do not wait, by name.
    """

    topic: str
    messages: int
    due: int
    hasty_subscriptions: tuple[str, ...] = ()

    @property
    def is_persistent(self) -> bool:
        """Return whether messages can wait there at all."""
        return not self.topic.startswith("non-persistent:")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the uses of delay without effect, in words."""
        found = []
        if not self.is_persistent:
            found.append(
                f"{self.topic} is not persistent, so its {self.messages:,} delayed messages were "
                f"delivered at once: {_ADVICE}."
            )
            return tuple(found)
        if self.due:
            found.append(
                f"{self.due:,} of {self.messages:,} delayed messages to {self.topic} were due when they "
                f"were published: {_ADVICE}."
            )
        if self.hasty_subscriptions:
            names = ", ".join(self.hasty_subscriptions)
            found.append(
                f"{names} of {self.topic}: Exclusive and Failover subscriptions get delayed messages at "
                "once; only Shared and Key_Shared ones wait."
            )
        return tuple(found)


@dataclass(frozen=True, slots=True)
class DelayedView:
    """The delayed messages of one gate, since its start.

    Args:
        messages: their number.
        due: of them, how many were due when they were published.
        topics: the first topics, as many as there was room for.
    """

    messages: int
    due: int
    topics: tuple[DelayedTopic, ...]

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
        warnings = [warning for topic in topics for warning in topic.warnings]
        more = len(warnings[TOLD:])
        rest = (f"And {more:,} more such warnings: see /quota/v1/gate/delayed.",) if more else ()
        return (counted, *warnings[:TOLD], *rest)
