"""Past exceedances of quotas, with begin, end and peak: a bounded memory.

An exceedance lasts from the first check that sees it to the first that sees it over; a check that cannot
tell ends none. Topics are remembered beyond their unloading, so a topic that comes back has its
history.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace
from typing import Final

from coordinator.backlog.rules.model import QuotaType
from coordinator.backlog.rules.namespaces import NamespaceCounts, namespace_of
from coordinator.backlog.rules.views import BacklogView, Exceedance

HISTORY: Final = 20
"""Exceedances remembered of a topic; of more, the oldest that is over is forgotten."""

HISTORIES: Final = 10_000
"""Topics whose exceedances are remembered; one more replaces the topic with the oldest."""


class Exceedances:
    """The exceedances of all topics."""

    def __init__(self) -> None:
        #: Of each topic oldest first; the topic that exceeded longest ago comes first.
        self._histories: OrderedDict[str, deque[Exceedance]] = OrderedDict()
        #: The exceedances that began since the start, by tenant/namespace and type.
        self.begun = NamespaceCounts()

    def of(self, topic: str) -> tuple[Exceedance, ...]:
        """Return a topic's exceedances, oldest first."""
        return tuple(self._histories.get(topic, ()))

    def note(self, view: BacklogView, now_ms: int) -> None:
        """Open, carry on or close the exceedances of a topic that was checked."""
        for quota_type in QuotaType:
            if view.exceeds(quota_type):
                self._carry_on(view, quota_type, now_ms)
            elif view.is_told(quota_type):
                self._close(view.topic, quota_type, now_ms)

    def _carry_on(self, view: BacklogView, quota_type: QuotaType, now_ms: int) -> None:
        value, limit = int(view.value_of(quota_type)), view.limit_of(quota_type) or 0
        history = self._histories.setdefault(view.topic, deque())
        self._histories.move_to_end(view.topic)
        if len(self._histories) > HISTORIES:
            self._histories.popitem(last=False)
        place = _lasting(history, quota_type)
        if place is None:
            if len(history) >= HISTORY:
                del history[_first_over(history)]
            history.append(Exceedance(quota_type, limit, now_ms, None, value))
            self.begun.add(namespace_of(view.topic) or "", quota_type)
        else:
            peak = max(history[place].peak, value)
            history[place] = replace(history[place], limit=limit, peak=peak)

    def _close(self, topic: str, quota_type: QuotaType, now_ms: int) -> None:
        history = self._histories.get(topic, deque())
        place = _lasting(history, quota_type)
        if place is not None:
            history[place] = replace(history[place], ended_at_ms=now_ms)


def _lasting(history: deque[Exceedance], quota_type: QuotaType) -> int | None:
    """Return the index of the exceedance that is not over; None when there is none."""
    for place, exceedance in enumerate(history):
        if exceedance.quota_type is quota_type and exceedance.ended_at_ms is None:
            return place
    return None


def _first_over(history: deque[Exceedance]) -> int:
    """Return the index of the oldest exceedance that is over; of each type, all but one are."""
    return next(place for place, each in enumerate(history) if each.ended_at_ms is not None)
