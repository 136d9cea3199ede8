"""The event log of a sidecar: which event arrived when, and what the core decided of it.

The shell hands over every event after the core has handled it, and every group's row as it is sampled.
The log keeps an event if it changed the facts (members, definitions, connections, participants, books),
if clients began or ceased to wait in a round, or if the core decided another limit of it: another cause,
or a rate that moved by more than ``change_permille`` from the one last kept. Of all other counts and
reports nothing is kept, so a quiet group costs nothing.

One log answers three questions: the *story* of a group is all that concerns it; its *decisions* are those
on this sidecar's own limits, and say what was in force at an earlier time; *notes* are the events with a
kind, which the event stream and the marks of a chart show. A state that lasts is noted when it begins and
when it ends. What is kept, and since when nothing is missing: bounded_events.py. The recorder has all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from coordinator.core.events import (
    EscrowChanged,
    Event,
    GroupsChanged,
    MembersChanged,
    ParticipantsChanged,
    SessionConfirmed,
    Tick,
    TrafficCounted,
    UsageReportReceived,
)
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import (
    DIMENSIONS_OF,
    NANOS_PER_SECOND,
    Dimension,
    EscrowRecord,
    LimitKey,
    Member,
    ResourceGroup,
    TrafficKey,
    redefined,
)
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.board import GroupRow
from coordinator.insight.model.bounded_events import BoundedEvents, EventKind
from coordinator.insight.model.definition_changes import difference
from coordinator.insight.model.event_sentences import (
    backlog_sentence,
    event_sentence,
    members_sentence,
    waiting_sentence,
)
from coordinator.insight.model.past_decision import Outline, PastDecision
from coordinator.insight.model.settling import GroupStatus

_Decisions = dict[str, tuple[PastDecision, ...]]


class EventLog:
    """The last events of one core. See the module's head."""

    def __init__(self) -> None:
        self.kept = BoundedEvents()
        #: The core's last known facts, which the next event is compared with.
        self._passes = 0
        self._round = 0
        self._lifecycle = Lifecycle.STARTING
        self._degradations: tuple[Degradation, ...] = ()
        self._members: dict[str, Member] | None = None
        self._groups: dict[str, ResourceGroup] | None = None
        self._records: dict[str, EscrowRecord] = {}
        #: Where clients waited in the last closed round.
        self._waiting: set[TrafficKey] = set()
        #: Of the last decision that was kept of each limit.
        self._told: dict[LimitKey, Outline] = {}

    def begin(self, groups: AbstractSet[str]) -> None:
        """Begin a pass over all groups: forget deleted ones, and make room for the others."""
        self.kept.begin(groups)

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """Note an event that the core has handled."""
        decisions = self._new_decisions(event, state)
        if isinstance(event, TrafficCounted | Tick):
            if state.round != self._round:
                self._round = state.round
                self._compare_backlogs(state, now_ns)
            if decisions:
                own = state.settings.broker
                text = f"{own} took in its own traffic up to round {state.round:,}."
                self.kept.keep(now_ns, text, (), decisions)
        else:
            self._note(event, state, now_ns, decisions)
        if state.lifecycle is not self._lifecycle or state.degradations.all() != self._degradations:
            self._compare_lifecycle(state, now_ns)

    def sampled(self, before: GroupRow | None, row: GroupRow, own: str, now_ns: int) -> None:
        """Note the changes of a group that was sampled, at the brokers other than the own one."""
        if before is None:
            return
        was, now = ({*each.throttled} - {own} for each in (before, row))
        for kind, brokers in ((EventKind.THROTTLED, now - was), (EventKind.RELEASED, was - now)):
            for broker in sorted(brokers):
                text = waiting_sentence(row.group, broker, kind is EventKind.THROTTLED)
                self._keep_of(row.group, now_ns, text, {}, kind)
        if before.standing is GroupStatus.CONVERGING and row.standing is GroupStatus.SETTLED:
            seconds = (now_ns - before.since_ns) / NANOS_PER_SECOND
            text = f"{row.group} settled after {seconds:.1f} s."
            self._keep_of(row.group, now_ns, text, {}, EventKind.SETTLED)

    def decisions(self, group: str, dimension: Dimension) -> list[tuple[int, int, PastDecision]]:
        """Return the kept decisions on a limit, newest first, each with its number and time."""
        return [each for each in self.kept.decisions(group) if each[2].key[1] is dimension]

    def decision_at(self, group: str, dimension: Dimension, when_ns: int) -> PastDecision | None:
        """Return the decision that was in force at a time; None if it is not known, or no longer."""
        kept = self.decisions(group, dimension)
        return next((decision for _, at_ns, decision in kept if at_ns <= when_ns), None)

    # What an event is kept with.

    def _new_decisions(self, event: Event, state: CoordinatorState) -> _Decisions:
        """Return the decisions of the last pass that differ from the ones last kept, by group."""
        decider = state.decider
        if decider.passes == self._passes:
            return {}
        self._passes = decider.passes
        keys = dict.fromkeys(decider.redecided)
        if isinstance(event, GroupsChanged):
            # Another limit for the cluster may leave the local one as it is.
            changed = redefined(self._groups or {}, state.groups or {})
            keys |= dict.fromkeys((name, dimension) for name in changed for dimension in Dimension)
        degradations = state.degradations.all()
        found: _Decisions = {}
        for key in keys:
            group, dimension = key
            decision, last = decider.decisions.get(key), self._told.get(key)
            defined = (state.groups or {}).get(group)
            if decision is None or defined is None:
                continue
            limit = defined.exact_limits.of(dimension)
            outline = Outline(decision.binding, decision.exact_limit, limit)
            if outline.differs(last, state.settings):
                self._told[key] = outline
                kept = PastDecision.of(state, key, decision, limit, last, degradations)
                found[group] = (*found.get(group, ()), kept)
        return found

    def _note(
        self, event: Event, state: CoordinatorState, now_ns: int, decisions: _Decisions
    ) -> None:
        """Keep an event other than counts, if it changed facts or decisions."""
        match event:
            case GroupsChanged():
                self._note_groups(state, now_ns, decisions)
            case EscrowChanged(records):
                self._note_records(records, now_ns, decisions)
            case MembersChanged():
                self._note_members(state, now_ns, decisions)
            case ParticipantsChanged(group):
                text = event_sentence(event, state.settings.broker)
                self.kept.keep(now_ns, text, (group,), decisions)
            case UsageReportReceived() | SessionConfirmed():
                if decisions:
                    text = event_sentence(event, state.settings.broker)
                    self.kept.keep(now_ns, text, (), decisions)
            case _:
                text = event_sentence(event, state.settings.broker)
                self.kept.keep(now_ns, text, None, decisions)

    def _note_members(self, state: CoordinatorState, now_ns: int, decisions: _Decisions) -> None:
        before, self._members = self._members, dict(state.members)
        members = self._members
        if before is None or before == members:
            text = members_sentence("The membership was read", len(members))
            self.kept.keep(now_ns, text, None if before is None else (), decisions)
            return
        gone = sorted(before.keys() - members.keys())
        come = sorted(name for name in members if members[name] != before.get(name))
        changes = [(EventKind.LEFT, name, f"{name} left") for name in gone]
        for name in come:
            again = " again" if name in before else ""
            changes.append((EventKind.JOINED, name, f"{name} joined{again}"))
        for number, (kind, name, change) in enumerate(changes, 1):
            made = decisions if number == len(changes) else {}
            text = members_sentence(change, len(members))
            self.kept.keep(now_ns, text, None, made, kind, name)

    def _note_groups(self, state: CoordinatorState, now_ns: int, decisions: _Decisions) -> None:
        before, self._groups = self._groups, dict(state.groups or {})
        if before is not None:
            for name in sorted(before.keys() - self._groups.keys()):
                self._forget(name)
                self._keep_of(name, now_ns, f"The group {name} was deleted.", {}, EventKind.DELETED)
            for name in redefined(before, self._groups):
                self._note_definition(name, before.get(name), now_ns, decisions)
        if decisions or before is None:
            self.kept.keep(now_ns, "The definitions were read.", (), decisions)

    def _note_definition(
        self, name: str, before: ResourceGroup | None, now_ns: int, decisions: _Decisions
    ) -> None:
        assert self._groups is not None
        after, kind = self._groups[name], EventKind.CREATED
        change = difference(before, after)
        text = f"The group {name} was {change}."
        if before is not None:
            kind, text = EventKind.CHANGED, f"The definition of {name} changed: {change}."
            if replace(before, entitled=after.entitled) == after:
                text = f"The groups beside {name} in its tree changed."
                self._keep_of(name, now_ns, text, decisions)
                return
        self._keep_of(name, now_ns, text, decisions, kind)

    def _note_records(
        self, records: Iterable[EscrowRecord], now_ns: int, decisions: _Decisions
    ) -> None:
        before, self._records = self._records, {record.group: record for record in records}
        for name, record in self._records.items():
            if before.get(name) == record:
                continue
            heirs = f"; it took over from {len(record.claimed)} ended" if record.claimed else ""
            text = f"The escrow record of {name} reached version {record.version:,}{heirs}."
            self._keep_of(name, now_ns, text, decisions)
        if decisions:
            self.kept.keep(now_ns, "The escrow records were read again.", (), decisions)

    def _compare_backlogs(self, state: CoordinatorState, now_ns: int) -> None:
        """Keep where clients began or ceased to wait in the round that just closed."""
        least = state.settings.throttled_permille
        waiting = {
            key
            for key, meter in state.meters
            if meter.messages.sample_held_permille >= least
            or meter.bytes.sample_held_permille >= least
        }
        for key in sorted(waiting ^ self._waiting, key=lambda key: (key[0], key[1].value)):
            meter = state.meters.get(key)
            row = state.usage.row(state.settings.broker, *key)
            rates = () if row is None else tuple(map(row.rate_of, DIMENSIONS_OF[key[1]]))
            held = 0
            if meter is not None:
                held = max(meter.messages.sample_held_permille, meter.bytes.sample_held_permille)
            text = backlog_sentence(key, key in waiting, held, rates)
            kind = EventKind.THROTTLED if key in waiting else EventKind.RELEASED
            self._keep_of(key[0], now_ns, text, {}, kind)
        self._waiting = waiting

    def _compare_lifecycle(self, state: CoordinatorState, now_ns: int) -> None:
        before, self._lifecycle = self._lifecycle, state.lifecycle
        had, self._degradations = self._degradations, state.degradations.all()
        own = state.settings.broker
        was = "" if before is state.lifecycle else f", before {before.value}"
        why = "; ".join(degradation.value for degradation in self._degradations)
        text = f"{own} is {state.lifecycle.value}{was}"
        kind = EventKind.RECOVERED
        if {*self._degradations} - {*had}:
            kind = EventKind.DEGRADATION
        elif before is not state.lifecycle:
            kind = EventKind.STATE
        self.kept.keep(now_ns, f"{text}: {why}." if why else f"{text}.", None, {}, kind, own)

    def _keep_of(
        self,
        group: str,
        now_ns: int,
        text: str,
        decisions: _Decisions,
        kind: EventKind | None = None,
    ) -> None:
        """Keep an event of one group with the decisions on it, which are taken out."""
        made: Mapping[str, tuple[PastDecision, ...]] = {}
        if group in decisions:
            made = {group: decisions.pop(group)}
        concerns: Collection[str] = (group,)
        self.kept.keep(now_ns, text, concerns, made, kind, group)

    def _forget(self, group: str) -> None:
        for dimension in Dimension:
            self._told.pop((group, dimension), None)
