"""Sample the core from outside, group after group, and keep the samples for all readers.

One pass over all groups takes a second; with more than `_COLUMNS_PER_SECOND` columns (participants, over
all groups) a pass takes as many seconds more, so that watching never costs more than about two hundredths
of the coordinator's loop. Conditions are those of the last whole pass. A pass that fails is counted and
left out: the views must not cost the traffic.

Most groups *rest*: they have no participants, and nothing was decided on them since the last sample.
Their state is then that of the last sample, so only this fact is noted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.backlog.rules.views import BacklogView
from coordinator.core.decisions.decision import Decision
from coordinator.core.events import Event
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import NANOS_PER_SECOND, Dimension, ResourceGroup
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.backlog_conditions import BacklogConditions
from coordinator.insight.model.board import Board
from coordinator.insight.model.conditions import Condition, Conditions
from coordinator.insight.model.event_log import EventLog
from coordinator.insight.model.group_conditions import GroupConditions
from coordinator.insight.model.lost_peers import LostPeers
from coordinator.insight.model.preview import DimensionPreview, preview
from coordinator.insight.model.sidecar_conditions import sidecar_conditions
from coordinator.insight.model.story import story
from coordinator.insight.model.views import StoryView
from coordinator.ports import Clock
from coordinator.runtime.supervision import TaskSupervisor

_PASS_S = 1.0
_COLUMNS_PER_SECOND = 10_000
_COLUMNS_PER_STEP = 20
"""Columns sampled before the loop has its turn: about 0.5 ms."""
_RESTING_PER_COLUMN = 8
"""Resting groups that together cost as much as a column."""
_NAMES_PER_STEP = 5_000
"""Mentioned groups that are taken in before the loop has its turn: about 0.5 ms."""
_TOPICS_PER_STEP = 500
"""Backlogs checked before the loop has its turn: about 2 ms."""


class _Facts(NamedTuple):
    """The facts that determine the sample of a group without participants."""

    group: ResourceGroup
    #: On one dimension: all are decided together, each time with a new object.
    decision: Decision | None
    lifecycle: Lifecycle

    def stand(self, now: _Facts) -> bool:
        """Return whether they are the same now, and no decision was made meanwhile."""
        return (
            self.decision is now.decision
            and self.lifecycle is now.lifecycle
            and self.group == now.group
        )


class Sampler:
    """Samples one core.

    Args:
        state: the core.
        clock: monotonic time.
        supervisor: the process's.
    """

    def __init__(
        self, state: CoordinatorState, clock: Clock, supervisor: TaskSupervisor | None = None
    ) -> None:
        self._supervisor = supervisor or TaskSupervisor()
        self._state = state
        self._clock = clock
        self._pass_ended_ns = clock.now_ns()
        #: Seconds between two samples of a group.
        self.period_s = _PASS_S
        self.board = Board()
        self.events = EventLog()
        #: The conditions at the end of the last pass.
        self.conditions = Conditions()
        #: Each yields further conditions, at the end of each pass.
        self.further: list[Callable[[int], Iterable[Condition]]] = []
        self._lost = LostPeers()
        self._group_conditions = GroupConditions(state.settings.thresholds)
        #: The groups without participants at the last sample, with their facts.
        self._resting: dict[str, _Facts] = {}
        #: Backlogs as of the last check, until they are looked at; and what was the case with them then.
        self._checked: tuple[BacklogView, ...] | None = None
        self._backlogs: list[Condition] = []

    def now_ns(self) -> int:
        """Return the time that ages count from."""
        return self._clock.now_ns()

    def age_s(self) -> float:
        """Return the seconds since all groups were sampled."""
        return (self._clock.now_ns() - self._pass_ended_ns) / NANOS_PER_SECOND

    def preview(self, changed: ResourceGroup) -> tuple[DimensionPreview, ...]:
        """Return the targets if a group were defined like this."""
        return preview(self._state, changed)

    def story(self, group: str, until_ns: int) -> StoryView:
        """Return the events that concern a group, and the decisions of this sidecar on them."""
        return story(self.events.kept, group, until_ns, self._clock.now_ns())

    def handled(self, event: Event) -> None:
        """Note an event that the core has handled."""
        now_ns = self._clock.now_ns()
        self.events.handled(event, self._state, now_ns)
        self._lost.handled(event, self._state, now_ns)

    def backlogs_checked(self, views: tuple[BacklogView, ...]) -> None:
        """Take over the checked backlogs of the own broker."""
        self._checked = views

    async def run(self) -> None:
        """Sample for ever."""
        while True:
            self.period_s = max(_PASS_S, self.board.columns() / _COLUMNS_PER_SECOND)
            await asyncio.gather(self._look_safely(), asyncio.sleep(self.period_s))

    async def _look_safely(self) -> None:
        with self._supervisor.guard("samples"):
            await self.look()

    async def look(self) -> None:
        """Make one pass over all groups, in steps that leave turns to the loop's other work."""
        groups = self._state.groups or {}
        self.board.begin(groups.keys())
        self.events.begin(groups.keys())
        self._group_conditions.begin(groups.keys())
        if not self._resting.keys() <= groups.keys():
            self._resting = {name: facts for name, facts in self._resting.items() if name in groups}
        mentioned = await self._mentioned()
        found: list[Condition] = []
        columns = 0.0
        for name in sorted(groups):
            if name not in mentioned and self._has_rested(name):
                columns += 1 / _RESTING_PER_COLUMN
            else:
                columns += self._look_at(name, found)
            if columns >= _COLUMNS_PER_STEP:
                columns = 0.0
                await asyncio.sleep(0)
        await self._look_at_backlogs()
        now_ns = self._clock.now_ns()
        found += sidecar_conditions(self._state, self._lost.at(now_ns), now_ns)
        found += self._backlogs
        for conditions in self.further:
            found += conditions(now_ns)
        self.conditions = Conditions.of(found)
        self._pass_ended_ns = now_ns

    async def _look_at_backlogs(self) -> None:
        views, self._checked = self._checked, None
        if views is None:
            return
        settings = self._state.settings
        conditions = BacklogConditions(settings.broker, settings.thresholds)
        for number, view in enumerate(views, 1):
            conditions.look_at(view)
            if not number % _TOPICS_PER_STEP:
                await asyncio.sleep(0)
        self._backlogs = conditions.found

    async def _mentioned(self) -> set[str]:
        """Return the groups that may have participants; all others have none."""
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
        """Return whether a group has not changed since the last sample; if so, note a sample."""
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

    def _look_at(self, name: str, found: list[Condition]) -> int:
        """Sample one group; return the cost in columns."""
        facts = self._facts(name)
        self._resting.pop(name, None)
        before = self.board.rows.get(name)
        now_ns = self._clock.now_ns()
        row = self.board.sample(self._state, name, now_ns)
        if row is None:
            return 0
        self.events.sampled(before, row, self._state.settings.broker, now_ns)
        found += self._group_conditions.of_group(self._state, row, now_ns)
        if facts is not None and not row.is_used:
            self._resting[name] = facts
        return 1 + sum(each.participants for each in row.dimensions.values())
