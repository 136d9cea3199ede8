"""Count delayed messages per topic, and how many of them were due when they came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.insight.model.delayed import DelayedTopic, DelayedView

TOPICS_MAX: Final = 1_000
"""Topics that are counted one by one; messages to all further topics are counted together."""


@dataclass(slots=True)
class _Count:
    messages: int = 0
    due: int = 0


class DelayedMessages:
    """Counts messages that were published with a time of delivery, since the start."""

    def __init__(self) -> None:
        self._topics: dict[str, _Count] = {}
        self._others = _Count()

    def came(self, topic: str, messages: int, *, is_due: bool) -> None:
        """Count delayed messages to a topic, whether they pass at once or wait for the limits."""
        count = self._topics.get(topic)
        if count is None:
            has_room = len(self._topics) < TOPICS_MAX
            count = self._topics.setdefault(topic, _Count()) if has_room else self._others
        count.messages += messages
        count.due += messages if is_due else 0

    def view(self, hasty: Mapping[str, Iterable[str]]) -> DelayedView:
        """Return the counts, with the subscriptions of each topic that get delayed messages at once."""
        counts = (*self._topics.values(), self._others)
        return DelayedView(
            messages=sum(count.messages for count in counts),
            due=sum(count.due for count in counts),
            topics=tuple(
                DelayedTopic(topic, count.messages, count.due, tuple(sorted(hasty.get(topic, ()))))
                for topic, count in self._topics.items()
            ),
        )
