"""The story of a group: the events that concern it, oldest first, with what was decided of each."""

from __future__ import annotations

from coordinator.core.model import NANOS_PER_SECOND, LimitKey
from coordinator.insight.model.bounded_events import MAX_CELLS, MAX_EVENTS, BoundedEvents
from coordinator.insight.model.past_decision import PastDecision
from coordinator.insight.model.views import StoryEventView, StoryView

MAX_TOLD = 100
"""Events in one story, unless more are asked for."""


def story(
    kept: BoundedEvents, group: str, until_ns: int, now_ns: int, most: int = MAX_TOLD
) -> StoryView:
    """Return the story of a group.

    Args:
        kept: the events of a sidecar.
        group: the group.
        until_ns: later events are left out.
        now_ns: the time that ages count from.
        most: earlier events are left out when there are more than this.
    """
    found = [event for event in kept.of_group(group) if event.at_ns <= until_ns]
    omitted = max(0, len(found) - most)
    earlier: dict[LimitKey, PastDecision] = {}
    events = []
    for place, event in enumerate(found):
        if place >= omitted:
            told = tuple(made.told(earlier.get(made.key)) for made in event.decisions)
            events.append(StoryEventView(event.number, now_ns - event.at_ns, event.text, told))
        earlier |= {made.key: made for made in event.decisions}
    return StoryView(_beginning(omitted, kept.forgotten_ns(group), now_ns), tuple(events))


def _beginning(omitted: int, forgotten_ns: int | None, now_ns: int) -> str:
    if omitted:
        return f"{omitted:,} earlier events are left out."
    if forgotten_ns is None:
        return "The story is whole since this sidecar started."
    age_s = (now_ns - forgotten_ns) / NANOS_PER_SECOND
    return (
        f"Events of more than {age_s:,.1f} s ago are forgotten: the log holds {MAX_EVENTS:,} events of "
        f"a group, and {MAX_CELLS:,} cells of all groups together."
    )
