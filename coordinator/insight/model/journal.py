"""Notes in words, which the event stream, the markers of a chart and a log show.

The journal receives every event after the core has handled it, and every group's row as it is sampled; it
compares these with its last state and notes the difference. Nothing is noted twice: a broker that stays
throttled is one note when it begins and one when it ends. The journal is a ring of `JOURNAL_LENGTH`
notes; a reader that comes late gets those that are still in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from coordinator.core.events import Event, GroupsChanged, MembersChanged
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import Dimension, Member, ResourceGroup, redefined
from coordinator.core.rates import in_digits
from coordinator.core.state import CoordinatorState
from coordinator.core.transfer.tree_rules import GUARANTEE_FIELDS
from coordinator.insight.model.board import GroupRow
from coordinator.insight.model.settling import GroupStatus

JOURNAL_LENGTH = 1_000


class NoteKind(Enum):
    """The kind of a note."""

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
class Note:
    """One note.

    Args:
        number: grows by one with every note.
        at_ns: when it was made.
        kind: its kind.
        subject: the group or broker.
        text: a sentence.
    """

    number: int
    at_ns: int
    kind: NoteKind
    subject: str
    text: str


class Journal:
    """The notes of one sidecar."""

    def __init__(self) -> None:
        self._notes: deque[Note] = deque(maxlen=JOURNAL_LENGTH)
        self._listeners: list[Callable[[Note], None]] = []
        self._members: dict[str, Member] | None = None
        self._groups: dict[str, ResourceGroup] | None = None
        self._lifecycle = Lifecycle.STARTING
        self._degradations: tuple[Degradation, ...] = ()
        self._next = 0

    def notes(self, after: int = -1) -> tuple[Note, ...]:
        """Return the notes with a higher number that are still in the ring, oldest first."""
        if after >= self._next:  # the number of an earlier process
            after = -1
        return tuple(note for note in self._notes if note.number > after)

    def watch(self, listener: Callable[[Note], None]) -> Callable[[], None]:
        """Call the listener with every new note; return a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """Note an event that the core has handled."""
        if isinstance(event, MembersChanged):
            self._compare_members(dict(state.members), now_ns)
        elif isinstance(event, GroupsChanged):
            self._compare_groups(dict(state.groups or {}), now_ns)
        if state.lifecycle is not self._lifecycle or state.degradations.all() != self._degradations:
            self._compare_state(state, now_ns)

    def sampled(self, before: GroupRow | None, row: GroupRow, now_ns: int) -> None:
        """Note the changes of a group that was sampled."""
        if before is None:
            return
        for broker in sorted(set(row.throttled) - set(before.throttled)):
            self._note(NoteKind.THROTTLED, row.group, f"{broker} holds producers back", now_ns)
        for broker in sorted(set(before.throttled) - set(row.throttled)):
            self._note(
                NoteKind.RELEASED, row.group, f"{broker} no longer holds messages back", now_ns
            )
        if before.standing is GroupStatus.CONVERGING and row.standing is GroupStatus.SETTLED:
            seconds = (now_ns - before.since_ns) / 1_000_000_000
            self._note(NoteKind.SETTLED, row.group, f"settled after {seconds:.1f} s", now_ns)

    def _compare_members(self, members: dict[str, Member], now_ns: int) -> None:
        before, self._members = self._members, members
        if before is None:
            return
        for broker in sorted(before.keys() | members.keys()):
            if broker not in members:
                self._note(NoteKind.LEFT, broker, f"{broker} left", now_ns)
            elif members[broker] != before.get(broker):
                again = " again" if broker in before else ""
                self._note(NoteKind.JOINED, broker, f"{broker} joined{again}", now_ns)

    def _compare_groups(self, groups: dict[str, ResourceGroup], now_ns: int) -> None:
        before, self._groups = self._groups, groups
        if before is None:
            return
        gone = before.keys() - groups.keys()
        for name in sorted({*gone, *redefined(before, groups)}):
            old, new = before.get(name), groups.get(name)
            if new is None:
                self._note(NoteKind.DELETED, name, "deleted", now_ns)
            elif old is None or replace(old, entitled=new.entitled) != new:
                kind = NoteKind.CREATED if old is None else NoteKind.CHANGED
                self._note(kind, name, difference(old, new), now_ns)

    def _compare_state(self, state: CoordinatorState, now_ns: int) -> None:
        broker = state.settings.broker
        if state.lifecycle is not self._lifecycle:
            text = f"{broker} is {state.lifecycle.value}, was {self._lifecycle.value}"
            self._note(NoteKind.STATE, broker, text, now_ns)
        degradations = state.degradations.all()
        for degradation in degradations:
            if degradation not in self._degradations:
                self._note(NoteKind.DEGRADATION, broker, f"{broker}: {degradation.value}", now_ns)
        for degradation in self._degradations:
            if degradation not in degradations:
                self._note(
                    NoteKind.RECOVERED, broker, f"{broker}, over: {degradation.value}", now_ns
                )
        self._lifecycle, self._degradations = state.lifecycle, degradations

    def _note(self, kind: NoteKind, subject: str, text: str, now_ns: int) -> None:
        note = Note(self._next, now_ns, kind, subject, text)
        self._next += 1
        self._notes.append(note)
        for listener in tuple(self._listeners):
            listener(note)


def difference(before: ResourceGroup | None, after: ResourceGroup) -> str:
    """Return a change of a definition in words."""
    if before is None:
        return f"created: {_limits(after)}" + (f", below {after.parent}" if after.parent else "")
    changes = [
        f"{dimension.value} {_shown(before, dimension)} → {_shown(after, dimension)}"
        for dimension in Dimension
        if before.exact_limits.of(dimension) != after.exact_limits.of(dimension)
    ]
    changes += [
        f"{field} {before.guarantees.of(dimension) or 0:,} → {after.guarantees.of(dimension) or 0:,}"
        for dimension, field in GUARANTEE_FIELDS.items()
        if before.guarantees.of(dimension) != after.guarantees.of(dimension)
    ]
    if before.allowed_tenants != after.allowed_tenants:
        named = (", ".join(each.allowed_tenants) or "none" for each in (before, after))
        changes.append(f"allowed tenants {' → '.join(named)}")
    for name in (
        "law",
        "weights",
        "overshoot_policy",
        "partition_policy",
        "enforcement",
        "observes",
        "parent",
        "weight",
        "on_limit",
        "hold_millis",
        "burst_seconds",
    ):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            shown = (str(each) if each != "" else "none" for each in (old, new))
            changes.append(f"{name.replace('_', ' ')} {' → '.join(shown)}")
    return ", ".join(changes) or "written again, unchanged"


def _limits(group: ResourceGroup) -> str:
    limited = [
        f"{dimension.value} {in_digits(limit)}"
        for dimension in Dimension
        if (limit := group.exact_limits.of(dimension)) is not None
    ]
    return ", ".join(limited) or "nothing limited"


def _shown(group: ResourceGroup, dimension: Dimension) -> str:
    limit = group.exact_limits.of(dimension)
    return "unlimited" if limit is None else in_digits(limit)
