"""Looks at the core from outside, group after group, and keeps what it saw for whoever asks.

One pass over all groups a second; with more than `_COLUMNS_PER_SECOND` columns (brokers that take part,
over all groups) a pass takes as many seconds more, so that watching never costs more than about two
hundredths of the coordinator's loop. Alarms are looked at when a pass ends. A pass that fails is logged
and left out: what is shown must not cost the traffic.

Most groups *rest*: nobody takes part in them, and nothing was decided on them since they were last looked
at. All that is shown of them is then what it was, so no more is done than to say so.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from coordinator.core.alarm_conditions import Conditions
from coordinator.core.alarms import Alarms, Sighting
from coordinator.core.backlog.conditions import BacklogConditions
from coordinator.core.backlog.views import BacklogView
from coordinator.core.board import Board
from coordinator.core.decision_history import DecisionHistory
from coordinator.core.decisions import Decision
from coordinator.core.events import Event
from coordinator.core.journal import Journal
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import NANOS_PER_SECOND, Dimension, ResourceGroup
from coordinator.core.preview import DimensionPreview, preview
from coordinator.core.state import CoordinatorState
from coordinator.ports import Clock

log = structlog.get_logger(__name__)

_PASS_S = 1.0
_COLUMNS_PER_SECOND = 10_000
_COLUMNS_PER_STEP = 20
"""Columns that are looked at before the loop has its turn: about 0.5 ms."""
_RESTING_PER_COLUMN = 8
"""Groups that rest and cost together as much as a column."""
_NAMES_PER_STEP = 5_000
"""Groups that brokers mention and that are taken in before the loop has its turn: about 0.5 ms."""
_TOPICS_PER_STEP = 500
"""Backlogs that are looked at before the loop has its turn: about 2 ms."""


class _Facts(NamedTuple):
    """All that is shown of a group follows from, while nobody takes part in it."""

    group: ResourceGroup
    #: On one dimension: all are decided together, and each time anew.
    decision: Decision | None
    lifecycle: Lifecycle

    def stand(self, now: _Facts) -> bool:
        """Whether they are the same now, and nothing was decided meanwhile, were it the same again."""
        return (
            self.decision is now.decision
            and self.lifecycle is now.lifecycle
            and self.group == now.group
        )


class Watch:
    """Samples one core; `admin_api.backend.Watching` for the admin API.

    Args:
        state: the core.
        clock: monotonic time.
    """

    def __init__(self, state: CoordinatorState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._pass_ended_ns = clock.now_ns()
        #: Seconds from one sample of a group to its next.
        self.period_s = _PASS_S
        self.board = Board()
        self.journal = Journal()
        self.decisions = DecisionHistory()
        self.alarms = Alarms(state.settings.alarms)
        self._conditions = Conditions(state.settings.alarms)
        #: The groups that nobody took part in when they were looked at, and what they were then.
        self._resting: dict[str, _Facts] = {}
        #: Backlogs as of the last check, until they are looked at; and what was the case with them then.
        self._checked: tuple[BacklogView, ...] | None = None
        self._backlogs: list[Sighting] = []

    def now_ns(self) -> int:
        """The time that ages count from."""
        return self._clock.now_ns()

    def age_s(self) -> float:
        """Seconds since all groups were looked at."""
        return (self._clock.now_ns() - self._pass_ended_ns) / NANOS_PER_SECOND

    def preview(self, changed: ResourceGroup) -> tuple[DimensionPreview, ...]:
        """What would follow if a group were defined so."""
        return preview(self._state, changed)

    def handled(self, event: Event) -> None:
        """The core handled an event."""
        now_ns = self._clock.now_ns()
        self.journal.handled(event, self._state, now_ns)
        self._conditions.handled(event, self._state, now_ns)

    def backlogs_checked(self, views: tuple[BacklogView, ...]) -> None:
        """The backlogs of the own broker were looked at."""
        self._checked = views

    async def run(self) -> None:
        """Sample for ever."""
        while True:
            self.period_s = max(_PASS_S, self.board.columns() / _COLUMNS_PER_SECOND)
            await asyncio.gather(self._look_safely(), asyncio.sleep(self.period_s))

    async def _look_safely(self) -> None:
        try:
            await self.look()
        except Exception:
            log.exception("a look at the groups failed")

    async def look(self) -> None:
        """One pass over all groups, in steps that the loop's other work can come between."""
        groups = self._state.groups or {}
        self.board.begin(groups.keys())
        self.decisions.begin(groups.keys())
        if not self._resting.keys() <= groups.keys():
            self._resting = {name: facts for name, facts in self._resting.items() if name in groups}
        mentioned = await self._mentioned()
        sightings: list[Sighting] = []
        columns = 0.0
        for name in sorted(groups):
            if name not in mentioned and self._has_rested(name):
                columns += 1 / _RESTING_PER_COLUMN
            else:
                columns += self._look_at(name, sightings)
            if columns >= _COLUMNS_PER_STEP:
                columns = 0.0
                await asyncio.sleep(0)
        await self._look_at_backlogs()
        now_ns = self._clock.now_ns()
        sightings += self._conditions.of_sidecar(self._state, now_ns)
        sightings += self._backlogs
        for turn in self.alarms.look(sightings, now_ns):
            self.journal.turned(turn, now_ns)
        self._pass_ended_ns = now_ns

    async def _look_at_backlogs(self) -> None:
        views, self._checked = self._checked, None
        if views is None:
            return
        settings = self._state.settings
        conditions = BacklogConditions(settings.broker, settings.alarms)
        for number, view in enumerate(views, 1):
            conditions.look_at(view)
            if not number % _TOPICS_PER_STEP:
                await asyncio.sleep(0)
        self._backlogs = conditions.found

    async def _mentioned(self) -> set[str]:
        """The groups that somebody may take part in; nobody does in the others."""
        found: set[str] = set()
        names = 0
        for broker in self._state.usage.senders():
            mentioned = self._state.usage.mentioned(broker)
            found |= mentioned
            names += len(mentioned)
            if names >= _NAMES_PER_STEP:
                names = 0
                await asyncio.sleep(0)
        return found

    def _has_rested(self, name: str) -> bool:
        """Whether nothing can be seen of a group that was not seen at the last look, which is noted."""
        seen, now = self._resting.get(name), self._facts(name)
        if seen is None or now is None or not seen.stand(now):
            return False
        self.board.rest(name, self._clock.now_ns())
        return True

    def _facts(self, name: str) -> _Facts | None:
        group = (self._state.groups or {}).get(name)
        if group is None:
            return None
        decision = self._state.decider.decisions.get((name, Dimension.PUBLISH_MESSAGES))
        return _Facts(group, decision, self._state.lifecycle)

    def _look_at(self, name: str, sightings: list[Sighting]) -> int:
        """Look at one group; returns what that has cost, in columns."""
        facts = self._facts(name)
        self._resting.pop(name, None)
        before = self.board.rows.get(name)
        now_ns = self._clock.now_ns()
        row = self.board.sample(self._state, name, now_ns)
        if row is None:
            return 0
        self.journal.sampled(before, row, now_ns)
        self.decisions.sampled(self._state, name, now_ns)
        sightings += self._conditions.of_group(self._state, row, now_ns)
        if facts is not None and not row.is_used:
            self._resting[name] = facts
        return 1 + sum(each.participants for each in row.dimensions.values())
