"""What is the case now with the backlogs of one broker, of all that there are alarms for (alarms.py).

Seen from the last check, which is once a minute: an alarm of a backlog that can no longer be looked at
stays as it is. The subject names the broker before the topic, because a topic that moves is told by its
new broker while the old one still takes its time to say that it is over.

Of each kind the first `MAX_SIGHTED` topics by name are seen; more would say no more than these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coordinator.core.alarms import AlarmKind, AlarmSettings, Sighting
from coordinator.core.backlog.views import BacklogView

MAX_SIGHTED: Final = 1_000


class BacklogConditions:
    """Sees what is the case with the topics of a broker, one after the other.

    Args:
        broker: whose topics they are.
        settings: from where on something is worth an alarm.
    """

    def __init__(self, broker: str, settings: AlarmSettings) -> None:
        self._broker = broker
        self._settings = settings
        self._room = dict.fromkeys(AlarmKind, MAX_SIGHTED)
        #: What is the case with the topics looked at so far.
        self.found: list[Sighting] = []

    def look_at(self, view: BacklogView) -> None:
        """Look at one more topic."""
        for sighting in _of_topic(view, self._broker, self._settings):
            if self._room[sighting.kind]:
                self._room[sighting.kind] -= 1
                self.found.append(sighting)


def _of_topic(view: BacklogView, broker: str, settings: AlarmSettings) -> Iterator[Sighting]:
    subject = f"{broker} {view.topic}"
    whose = f"oldest is {view.subscription} at {broker}"
    exceeded = view.exceeded
    used = view.used(view.fullest)
    if exceeded is not None:
        text = f"the backlog of {view.topic} exceeds its {exceeded.value} quota; {whose}"
        yield Sighting(AlarmKind.BACKLOG_EXCEEDED, subject, text)
    elif used * 1000 >= settings.near_limit_permille:
        text = (
            f"the backlog of {view.topic} is at {used:.0%} of its {view.fullest.value} quota; "
            f"{whose}"
        )
        yield Sighting(AlarmKind.BACKLOG_NEAR_QUOTA, subject, text)
    bound_s = settings.backlog_age_s
    if bound_s is not None and view.age_s is not None and view.age_s > bound_s:
        text = f"a message of {view.topic} has waited for {view.age_s:,.0f} s; {whose}"
        yield Sighting(AlarmKind.BACKLOG_AGES, subject, text)
