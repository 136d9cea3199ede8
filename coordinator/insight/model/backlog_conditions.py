"""The present conditions of one broker's backlogs, of all that can raise an alarm (alarms.py).

They are as of the last check, which is once a minute: the alarm of a backlog that can no longer be
checked stays as it is. The subject names the broker before the topic, because the new broker of a topic
that moves reports its alarm while the old one still takes its time to clear it.

Of each kind the first `MAX_SIGHTED` topics by name are reported; more would say no more than these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coordinator.backlog.rules.views import BacklogView
from coordinator.core.settings import AlarmSettings
from coordinator.insight.model.alarms import AlarmCondition, AlarmKind

MAX_SIGHTED: Final = 1_000


class BacklogConditions:
    """Check the conditions of a broker's topics, one after the other.

    Args:
        broker: the owner of the topics.
        settings: the thresholds of alarms.
    """

    def __init__(self, broker: str, settings: AlarmSettings) -> None:
        self._broker = broker
        self._settings = settings
        self._room = dict.fromkeys(AlarmKind, MAX_SIGHTED)
        #: The conditions of the topics checked so far.
        self.found: list[AlarmCondition] = []

    def look_at(self, view: BacklogView) -> None:
        """Check one more topic."""
        for sighting in _of_topic(view, self._broker, self._settings):
            if self._room[sighting.kind]:
                self._room[sighting.kind] -= 1
                self.found.append(sighting)


def _of_topic(view: BacklogView, broker: str, settings: AlarmSettings) -> Iterator[AlarmCondition]:
    subject = f"{broker} {view.topic}"
    whose = f"oldest is {view.subscription} at {broker}"
    exceeded = view.exceeded
    used = view.used(view.fullest)
    if exceeded is not None:
        text = f"the backlog of {view.topic} exceeds its {exceeded.value} quota; {whose}"
        yield AlarmCondition(AlarmKind.BACKLOG_EXCEEDED, subject, text)
    elif used * 1000 >= settings.near_limit_permille:
        text = (
            f"the backlog of {view.topic} is at {used:.0%} of its {view.fullest.value} quota; "
            f"{whose}"
        )
        yield AlarmCondition(AlarmKind.BACKLOG_NEAR_QUOTA, subject, text)
    bound_s = settings.backlog_age_s
    if bound_s is not None and view.age_s is not None and view.age_s > bound_s:
        text = f"a message of {view.topic} has waited for {view.age_s:,.0f} s; {whose}"
        yield AlarmCondition(AlarmKind.BACKLOG_AGES, subject, text)
