"""The story of a sidecar: which event arrived when, and what the core decided of it.

The shell hands over every event after the core has handled it. The log keeps an event if it changed the
facts (members, definitions, connections, participants, books), if clients began or ceased to wait in a
round, or if the core decided another limit of it: another cause, or a rate that moved by more than
``change_permille`` from the one last kept. Of all other counts and reports nothing is kept, so a quiet
group costs nothing.

Bounds: the last `MAX_EVENTS` events of the sidecar, and `MAX_CELLS` cells over all of them, where a
decision has a cell for itself and one for each participant. Beyond that the oldest events are forgotten,
whichever groups they concern; every answer says since when nothing is missing. The recorder has all of
them.

An event is kept with the objects that the core decided on. The sentences are made when they are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from coordinator.core.allocation.splitting import Binding
from coordinator.core.decision import Decision
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
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.journal import difference
from coordinator.insight.model.story_sentences import KeptDecision, backlog_sentence, event_sentence
from coordinator.insight.model.views import StoryDecisionView, StoryEventView, StoryView

MAX_EVENTS = 2_000
"""Some hours of a cluster at rest; a membership or a limit that changes is a handful of events."""

MAX_CELLS = 20_000
"""A cell takes about 400 bytes: 8 MB, when a thousand groups move at once."""

MAX_TOLD = 100
"""Events in one story, unless more are asked for."""


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """One event with its decisions.

    Args:
        number: grows by one with every event that is kept.
        at_ns: when the core handled it.
        event: a sentence that names the event.
        concerns: the groups whose story it belongs to; None is every group.
        decisions: the decisions, by group.
    """

    number: int
    at_ns: int
    event: str
    concerns: AbstractSet[str] | None
    decisions: Mapping[str, tuple[KeptDecision, ...]]

    def is_of(self, group: str) -> bool:
        """Return whether it belongs to the story of a group."""
        return self.concerns is None or group in self.concerns or group in self.decisions

    @property
    def cells(self) -> int:
        """Return the number of cells that the decisions take."""
        return sum(
            kept_decision.cells
            for decisions in self.decisions.values()
            for kept_decision in decisions
        )


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """An event in words, with the decisions on the group; none if the limits stayed as they were."""

    number: int
    at_ns: int
    event: str
    decisions: tuple[StoryDecisionView, ...]


@dataclass(frozen=True, slots=True)
class GroupStory:
    """The story of one group, oldest event first.

    Args:
        events: the last events that concern the group.
        omitted: the earlier ones that the log holds and the story leaves out.
        forgotten_ns: when the newest event that the log has forgotten was handled, of any group; None
            if it has forgotten none.
    """

    events: tuple[StoryEvent, ...]
    omitted: int
    forgotten_ns: int | None

    def beginning(self, now_ns: int) -> str:
        """Return since when the story is whole."""
        if self.omitted:
            return f"{self.omitted:,} earlier events are left out."
        if self.forgotten_ns is None:
            return "The story is whole since this sidecar started."
        age_s = (now_ns - self.forgotten_ns) / NANOS_PER_SECOND
        return (
            f"Events of more than {age_s:,.1f} s ago are forgotten: the log holds {MAX_EVENTS:,} events "
            f"and {MAX_CELLS:,} cells of all groups together."
        )

    def view(self, now_ns: int) -> StoryView:
        """Return the answer of the API."""
        return StoryView(
            self.beginning(now_ns),
            tuple(
                StoryEventView(event.number, now_ns - event.at_ns, event.event, event.decisions)
                for event in self.events
            ),
        )


class StimulusLog:
    """The last events of one core. See the module's head."""

    def __init__(self) -> None:
        self._kept: deque[KeptEvent] = deque()
        self._cells = 0
        self._next = 0
        #: When the newest forgotten event was handled.
        self._forgotten_ns: int | None = None
        #: The core's last known facts, which the next event is compared with.
        self._passes = 0
        self._round = 0
        self._lifecycle = Lifecycle.STARTING
        self._degradations: tuple[Degradation, ...] = ()
        self._members: dict[str, Member] = {}
        self._groups: dict[str, ResourceGroup] = {}
        self._records: dict[str, EscrowRecord] = {}
        #: Where clients waited in the last closed round.
        self._waiting: set[TrafficKey] = set()
        #: The last decision that was kept of each limit.
        self._told: dict[LimitKey, tuple[Binding, int | None]] = {}

    def __len__(self) -> int:
        """Return the number of events kept."""
        return len(self._kept)

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """Note an event that the core has handled."""
        decisions = self._new_decisions(state)
        if isinstance(event, TrafficCounted | Tick):
            if state.round != self._round:
                self._round = state.round
                self._compare_backlogs(state, now_ns)
            if decisions:
                self._keep(now_ns, self._counted(state), frozenset(), decisions)
        else:
            self._note(event, state, now_ns, decisions)
        if state.lifecycle is not self._lifecycle or state.degradations.all() != self._degradations:
            self._compare_lifecycle(state, now_ns)

    def story(
        self, group: str, settings: CoreSettings, until_ns: int, most: int = MAX_TOLD
    ) -> GroupStory:
        """Return the story of a group.

        Args:
            group: the group.
            settings: the core's.
            until_ns: later events are left out.
            most: earlier events are left out when there are more than this.
        """
        found = [kept for kept in self._kept if kept.at_ns <= until_ns and kept.is_of(group)]
        omitted = max(0, len(found) - most)
        earlier: dict[Dimension, KeptDecision] = {}
        events = []
        for place, kept in enumerate(found):
            decisions = []
            for kept_decision in kept.decisions.get(group, ()):
                if place >= omitted:
                    before = earlier.get(kept_decision.dimension)
                    sentence = kept_decision.sentence(group, settings.broker, before, settings)
                    decisions.append(_in_words(kept_decision, sentence))
                earlier[kept_decision.dimension] = kept_decision
            if place >= omitted:
                events.append(StoryEvent(kept.number, kept.at_ns, kept.event, tuple(decisions)))
        return GroupStory(tuple(events), omitted, self._forgotten_ns)

    # What an event is kept with.

    def _new_decisions(self, state: CoordinatorState) -> dict[str, tuple[KeptDecision, ...]]:
        """Return the decisions of the last pass that differ from the ones last kept, by group."""
        decider = state.decider
        if decider.passes == self._passes:
            return {}
        self._passes = decider.passes
        degradations = state.degradations.all()
        found: dict[str, tuple[KeptDecision, ...]] = {}
        for place in decider.redecided:
            decision, told = decider.decisions.get(place), self._told.get(place)
            if decision is None or not _differs(told, decision, state.settings):
                continue
            self._told[place] = (decision.binding, decision.local_limit)
            group, dimension = place
            is_first, was = told is None, None if told is None else told[1]
            kept_decision = KeptDecision(
                dimension, decision, was, is_first, state.lifecycle, degradations
            )
            found[group] = (*found.get(group, ()), kept_decision)
        return found

    def _counted(self, state: CoordinatorState) -> str:
        return f"{state.settings.broker} took in its own traffic up to round {state.round:,}."

    def _note(
        self,
        event: Event,
        state: CoordinatorState,
        now_ns: int,
        decisions: dict[str, tuple[KeptDecision, ...]],
    ) -> None:
        """Keep an event other than counts, if it changed facts or decisions."""
        match event:
            case GroupsChanged():
                self._note_groups(state, now_ns, decisions)
            case EscrowChanged(records):
                self._note_records(records, now_ns, decisions)
            case MembersChanged():
                self._keep(now_ns, self._members_sentence(state), None, decisions)
            case ParticipantsChanged(group):
                sentence = event_sentence(event, state.settings.broker)
                self._keep(now_ns, sentence, frozenset({group}), decisions)
            case UsageReportReceived() | SessionConfirmed():
                if decisions:
                    sentence = event_sentence(event, state.settings.broker)
                    self._keep(now_ns, sentence, frozenset(), decisions)
            case _:
                self._keep(now_ns, event_sentence(event, state.settings.broker), None, decisions)

    def _members_sentence(self, state: CoordinatorState) -> str:
        before, self._members = self._members, dict(state.members)
        joined = [name for name, member in self._members.items() if before.get(name) != member]
        left = before.keys() - self._members.keys()
        changes = [f"{name} joined" for name in sorted(joined)]
        changes += [f"{name} left" for name in sorted(left)]
        count = len(self._members)
        now = "1 broker is a member now" if count == 1 else f"{count} brokers are members now"
        return f"The membership changed: {', '.join(changes) or 'the brokers are the same'}; {now}."

    def _note_groups(
        self, state: CoordinatorState, now_ns: int, decisions: dict[str, tuple[KeptDecision, ...]]
    ) -> None:
        before, self._groups = self._groups, dict(state.groups or {})
        for name in before.keys() - self._groups.keys():
            self._forget(name)
            self._keep(now_ns, f"The group {name} was deleted.", frozenset({name}), {})
        for name in redefined(before, self._groups):
            old, change = before.get(name), difference(before.get(name), self._groups[name])
            sentence = f"The group {name} was {change}."
            if old is not None:
                sentence = f"The definition of {name} changed: {change}."
                if replace(old, entitled=self._groups[name].entitled) == self._groups[name]:
                    sentence = f"The groups beside {name} in its tree changed."
            of_group = {name: decisions.pop(name)} if name in decisions else {}
            self._keep(now_ns, sentence, frozenset({name}), of_group)
        if decisions:
            self._keep(now_ns, "The definitions were read again.", frozenset(), decisions)

    def _note_records(
        self,
        records: Iterable[EscrowRecord],
        now_ns: int,
        decisions: dict[str, tuple[KeptDecision, ...]],
    ) -> None:
        before, self._records = self._records, {record.group: record for record in records}
        for name, record in self._records.items():
            if before.get(name) == record:
                continue
            heirs = f"; it took over from {len(record.claimed)} ended" if record.claimed else ""
            sentence = f"The escrow record of {name} reached version {record.version:,}{heirs}."
            of_group = {name: decisions.pop(name)} if name in decisions else {}
            self._keep(now_ns, sentence, frozenset({name}), of_group)
        if decisions:
            self._keep(now_ns, "The escrow records were read again.", frozenset(), decisions)

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
            sentence = backlog_sentence(key, key in waiting, held, rates)
            self._keep(now_ns, sentence, frozenset({key[0]}), {})
        self._waiting = waiting

    def _compare_lifecycle(self, state: CoordinatorState, now_ns: int) -> None:
        before, self._lifecycle = self._lifecycle, state.lifecycle
        self._degradations = state.degradations.all()
        was = "" if before is state.lifecycle else f", before {before.value}"
        why = "; ".join(degradation.value for degradation in self._degradations)
        sentence = f"{state.settings.broker} is {state.lifecycle.value}{was}"
        self._keep(now_ns, f"{sentence}: {why}." if why else f"{sentence}.", None, {})

    # The bounded log.

    def _keep(
        self,
        at_ns: int,
        event: str,
        concerns: AbstractSet[str] | None,
        decisions: Mapping[str, tuple[KeptDecision, ...]],
    ) -> None:
        kept = KeptEvent(self._next, at_ns, event, concerns, decisions)
        self._next += 1
        self._kept.append(kept)
        self._cells += kept.cells
        while len(self._kept) > MAX_EVENTS or (self._cells > MAX_CELLS and len(self._kept) > 1):
            oldest = self._kept.popleft()
            self._cells -= oldest.cells
            self._forgotten_ns = oldest.at_ns

    def _forget(self, group: str) -> None:
        for dimension in Dimension:
            self._told.pop((group, dimension), None)


def _in_words(kept_decision: KeptDecision, sentence: str) -> StoryDecisionView:
    decision = kept_decision.decision
    return StoryDecisionView(
        kept_decision.dimension,
        kept_decision.was,
        decision.local_limit,
        decision.binding.value,
        sentence,
    )


def _differs(
    told: tuple[Binding, int | None] | None, decision: Decision, settings: CoreSettings
) -> bool:
    """Return whether a decision is worth keeping after the one last kept."""
    if told is None:
        return decision.binding is not Binding.UNLIMITED
    return decision.binding is not told[0] or settings.moved(told[1], decision.local_limit)
