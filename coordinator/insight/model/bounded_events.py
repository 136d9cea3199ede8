"""The bounded memory of an event log: by group, and of what concerns all groups.

A group has a log of its own, so that a busy group does not push out what is known of a quiet one. What
concerns every group, such as a member that leaves, is kept once. An event with decisions on a thousand
groups is one event with one number: each of these groups keeps it with its own decisions.

Bounds:

* the last `MAX_COMMON` events that concern every group;
* `MAX_CELLS` cells over the logs of all groups, shared equally, and `MAX_EVENTS` events of a group. An
  event is a cell, a decision is a cell, and each of its participants is one;
* the last `MAX_NOTES` notes, the events with a kind, for those who follow the log.

Beyond that the oldest are forgotten, and the log says since when nothing is missing. The newest event of
a group always stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from heapq import merge

from coordinator.insight.model.past_decision import PastDecision

MAX_COMMON = 1_000
MAX_NOTES = 1_000
MAX_EVENTS = 500
"""Of one group: some hours, while its limits follow the demand."""

MAX_CELLS = 100_000
"""A cell takes about 400 bytes: 40 MB, when thousands of groups move."""


class EventKind(Enum):
    """The kind of an event that is a note."""

    JOINED = "joined"
    LEFT = "left"
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    STATE = "state"
    DEGRADATION = "degradation"
    RECOVERED = "recovered"
    THROTTLED = "throttled"
    RELEASED = "released"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One event, as it is kept.

    Args:
        number: grows by one with every event that is kept, of any group.
        at_ns: when the core handled it.
        text: a sentence.
        kind: its kind; None for one that only a story tells.
        subject: the group or broker that a note is about.
        decisions: on the group in whose log it is.
    """

    number: int
    at_ns: int
    text: str
    kind: EventKind | None = None
    subject: str = ""
    decisions: tuple[PastDecision, ...] = ()

    @property
    def cells(self) -> int:
        """Return the cells that it takes."""
        return 1 + sum(decision.cells for decision in self.decisions)


@dataclass(slots=True)
class _GroupEvents:
    """The events of one group, oldest first."""

    events: list[LoggedEvent] = field(default_factory=list)
    cells: int = 0
    #: When the newest forgotten event was handled.
    forgotten_ns: int | None = None

    def add(self, event: LoggedEvent, room: int) -> None:
        self.events.append(event)
        self.cells += event.cells
        self.trim(room)

    def trim(self, room: int) -> None:
        """Forget the oldest events beyond the room, but never the newest one."""
        gone = 0
        while gone < len(self.events) - 1 and (
            self.cells > room or len(self.events) - gone > MAX_EVENTS
        ):
            self.cells -= self.events[gone].cells
            self.forgotten_ns = self.events[gone].at_ns
            gone += 1
        del self.events[:gone]


class BoundedEvents:
    """The last events; see the module's head."""

    def __init__(self) -> None:
        self._common: deque[LoggedEvent] = deque()
        self._common_forgotten_ns: int | None = None
        self._of_group: dict[str, _GroupEvents] = {}
        self._notes: deque[LoggedEvent] = deque(maxlen=MAX_NOTES)
        self._listeners: list[Callable[[LoggedEvent], None]] = []
        self._next = 0
        #: The room that the logs of all groups are within.
        self._trimmed_to = MAX_CELLS

    @property
    def cells(self) -> int:
        """Return the cells of all groups' events."""
        return sum(kept.cells for kept in self._of_group.values())

    def keep(
        self,
        at_ns: int,
        text: str,
        concerns: Collection[str] | None,
        decisions: Mapping[str, tuple[PastDecision, ...]],
        kind: EventKind | None = None,
        subject: str = "",
    ) -> None:
        """Keep an event.

        Args:
            at_ns: when the core handled it.
            text: a sentence.
            concerns: the groups that it belongs to, beside those with decisions; None is every group.
            decisions: by group.
            kind: its kind, if those who follow the log get it.
            subject: the group or broker that it is about, if it has a kind.
        """
        event = LoggedEvent(self._next, at_ns, text, kind, subject)
        self._next += 1
        if concerns is None:
            self._common.append(event)
            if len(self._common) > MAX_COMMON:
                self._common_forgotten_ns = self._common.popleft().at_ns
        for group in {*(concerns or ()), *decisions}:
            made = decisions.get(group, ())
            of_group = (
                LoggedEvent(event.number, at_ns, text, kind, subject, made) if made else event
            )
            self._of_group.setdefault(group, _GroupEvents()).add(of_group, self._room())
        if kind is not None:
            self._notes.append(event)
            for listener in tuple(self._listeners):
                listener(event)

    def begin(self, groups: AbstractSet[str]) -> None:
        """Forget deleted groups, and make room for the others."""
        if not self._of_group.keys() <= groups:
            self._of_group = {name: kept for name, kept in self._of_group.items() if name in groups}
        room = self._room()
        if room < self._trimmed_to:
            for kept in self._of_group.values():
                kept.trim(room)
        self._trimmed_to = room

    def of_group(self, group: str) -> Iterable[LoggedEvent]:
        """Return the events that concern a group, oldest first."""
        own = self._own(group)
        numbers = {event.number for event in own}
        common = (event for event in self._common if event.number not in numbers)
        return merge(own, common, key=lambda event: event.number)

    def decisions(self, group: str) -> Iterable[tuple[int, int, PastDecision]]:
        """Yield the decisions on a group, newest first, each with its event's number and time."""
        for event in reversed(self._own(group)):
            for decision in event.decisions:
                yield event.number, event.at_ns, decision

    def forgotten_ns(self, group: str) -> int | None:
        """Return when the newest forgotten event that concerns a group was handled; None: none is."""
        kept = self._of_group.get(group)
        times = (self._common_forgotten_ns, None if kept is None else kept.forgotten_ns)
        return max((time for time in times if time is not None), default=None)

    def notes(self, after: int = -1) -> tuple[LoggedEvent, ...]:
        """Return the notes with a higher number that are still known, oldest first."""
        if after >= self._next:  # the number of an earlier process
            after = -1
        return tuple(note for note in self._notes if note.number > after)

    def watch(self, listener: Callable[[LoggedEvent], None]) -> Callable[[], None]:
        """Call the listener with every new note; return a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _own(self, group: str) -> list[LoggedEvent]:
        kept = self._of_group.get(group)
        return [] if kept is None else kept.events

    def _room(self) -> int:
        return MAX_CELLS // max(1, len(self._of_group))
