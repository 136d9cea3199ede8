"""The present conditions of one broker's backlogs, one topic after the other (conditions.py).

They are as of the last check, which is once a minute: the condition of a backlog that can no longer be
checked stays as it is. The subject names the broker before the topic, since the old and the new broker of
a topic that moves may both have it until the next check of the old one.

Of each kind the first `MAX_TOPICS` topics by name are kept; more would say no more than these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coordinator.backlog.rules.views import BacklogView
from coordinator.core.settings import ConditionThresholds
from coordinator.insight.model.conditions import Condition, ConditionKind

MAX_TOPICS: Final = 1_000


class BacklogConditions:
    """Check the conditions of a broker's topics, one after the other.

    Args:
        broker: the owner of the topics.
        thresholds: of conditions.
    """

    def __init__(self, broker: str, thresholds: ConditionThresholds) -> None:
        self._broker = broker
        self._thresholds = thresholds
        self._room = dict.fromkeys(ConditionKind, MAX_TOPICS)
        #: The conditions of the topics checked so far.
        self.found: list[Condition] = []

    def look_at(self, view: BacklogView) -> None:
        """Check one more topic."""
        for condition in _of_topic(view, self._broker, self._thresholds):
            if self._room[condition.kind]:
                self._room[condition.kind] -= 1
                self.found.append(condition)


def _of_topic(
    view: BacklogView, broker: str, thresholds: ConditionThresholds
) -> Iterator[Condition]:
    subject = f"{broker} {view.topic}"
    whose = f"oldest is {view.subscription} at {broker}"
    exceeded = view.exceeded
    used = view.used(view.fullest)
    if exceeded is not None:
        sentence = f"the backlog of {view.topic} exceeds its {exceeded.value} quota; {whose}"
        yield Condition(ConditionKind.BACKLOG_EXCEEDED, subject, sentence)
    elif used * 1000 >= thresholds.near_limit_permille:
        sentence = (
            f"the backlog of {view.topic} is at {used:.0%} of its {view.fullest.value} quota; "
            f"{whose}"
        )
        yield Condition(ConditionKind.BACKLOG_NEAR_QUOTA, subject, sentence)
    bound_s = thresholds.backlog_age_s
    if bound_s is not None and view.age_s is not None and view.age_s > bound_s:
        sentence = f"a message of {view.topic} has waited for {view.age_s:,.0f} s; {whose}"
        yield Condition(ConditionKind.BACKLOG_AGES, subject, sentence)
