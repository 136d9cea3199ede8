"""The present state of a sidecar: the knowledge of its core, and the counts and notes beside it.

The runner reports events; a reader gets the state of the moment of its question. Nothing here waits, and
nothing is kept for longer than it is true: counts are kept of existing groups only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from coordinator.core.certificate.statement import Certificate
from coordinator.core.demand.observing import is_observed
from coordinator.core.events import ConnectionState
from coordinator.core.handling import refuses
from coordinator.core.model import Dimension, Unit
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.insight.model import explain, trees, what_if
from coordinator.insight.model.seconds import MinuteView, TrafficSeconds
from coordinator.insight.model.sentences import handling_sentence
from coordinator.insight.model.trees import TreeView
from coordinator.insight.model.views import Explanation, GroupView, HealthView, TaskView
from coordinator.insight.shell.totals import TrafficTotals
from coordinator.ports import Catalogue, Clock, Recorder, RecorderHealth
from coordinator.runtime.supervision import TaskSupervisor


class SidecarViews:
    """The present state of one sidecar; called on its own loop.

    Args:
        state: the core.
        clock: monotonic time.
        supervisor: knows the failed tasks.
    """

    def __init__(self, state: CoordinatorState, clock: Clock, supervisor: TaskSupervisor) -> None:
        self._state = state
        self._clock = clock
        self._supervisor = supervisor
        self._bad_payloads: Counter[str] = Counter()
        #: Reports in a member's name that it did not send, by member; their owner counts them.
        self.foreign_reports: Mapping[str, int] = {}
        self._catalogue = Catalogue()
        self._defined: Collection[str] = frozenset()
        self._connection: ConnectionState | None = None
        self._totals = TrafficTotals()
        self._seconds = TrafficSeconds()
        #: The recorder, if one is configured.
        self.recorder: Recorder | None = None

    # Events.

    def connection_changed(self, state: ConnectionState) -> None:
        """Note the state of the connection to ZooKeeper."""
        self._connection = state

    def catalogue_changed(self, catalogue: Catalogue, topics: frozenset[str]) -> None:
        """Take over a copy of the store, and the names of the scalable topics with limits."""
        self._catalogue = catalogue
        self._defined = catalogue.groups.keys() | topics
        self._totals.keep(self._defined)
        self._seconds.keep(self._defined)

    def payloads_dropped(self, reason: str, count: int) -> bool:
        """Count dropped payloads of the bus; return whether they are the first for this reason."""
        before = self._bad_payloads[reason]
        self._bad_payloads[reason] += count
        return before == 0

    def traffic_counted(self, counted: Sequence[Traffic]) -> None:
        """Add the own gate's counts since the last call."""
        by_group = self._state.observer.mirror(counted)
        self._totals.add(by_group)
        self._seconds.add(by_group, self._clock.now_ns())

    # Questions.

    def health(self) -> HealthView:
        """Return this sidecar's health; payloads that were no reports count as dropped reports."""
        view = explain.health(self._state, self._clock.now_ns())
        dropped = Counter(view.reports_dropped) + self._bad_payloads
        failed = tuple(
            TaskView(name, found.count, found.reason, found.runs)
            for name, found in sorted(self._supervisor.failures.items())
        )
        return replace(
            view,
            reports_dropped=dict(dropped),
            foreign_reports=dict(self.foreign_reports),
            failed_tasks=failed,
        )

    def group_view(self, group: str) -> GroupView:
        """Return one group with a row for every member; raises UnknownGroup."""
        return explain.group_view(self._state, group, self._clock.now_ns())

    def explain(self, group: str, dimension: Dimension, broker: str | None) -> Explanation:
        """Explain a local limit; raises UnknownGroup and UnknownBroker."""
        now_ns = self._clock.now_ns()
        explanation = explain.explain(self._state, group, dimension, broker, now_ns)
        explanation = self._with_handling(explanation)
        minute = None
        if explanation.broker == self._state.settings.broker:
            minute = self._seconds.view(group, dimension, now_ns)
        if minute is None:
            return explanation
        said = (explanation.sentence, minute.sentence(explanation.local_limit))
        return replace(explanation, sentence=" ".join(filter(None, said)), minute=minute)

    def _with_handling(self, explanation: Explanation) -> Explanation:
        """Add the credit of the group and, of the own broker, what was refused."""
        group = (self._state.groups or {})[explanation.group]
        is_own = explanation.broker == self._state.settings.broker
        if not is_own or explanation.cluster_limit is None or is_observed(group):
            return explanation
        of = explanation.dimension
        total = self._totals.of(group.name, of.monitoring_class)
        refused = total.messages_refused if of.unit is Unit.MESSAGES else total.bytes_refused
        said = (explanation.sentence, handling_sentence(group, of, refused))
        return replace(
            explanation,
            sentence=" ".join(filter(None, said)),
            refused=refused if refuses(group, of) else None,
        )

    def would_change(self, group: str, dimension: Dimension, broker: str | None) -> tuple[str, ...]:
        """Return the changes that would raise a limited broker's target."""
        return what_if.would_change(self._state, group, dimension, broker)

    def certificates(self, group: str) -> tuple[Certificate, ...]:
        """Return the most that a group's local limits can add up to now; raises UnknownGroup."""
        return explain.certificates(self._state, group, self._clock.now_ns())

    def roots(self) -> tuple[str, ...]:
        """Return the names of the roots of all trees of groups, sorted."""
        return trees.roots(self._state)

    def tree(self, group: str, dimension: Dimension) -> TreeView | None:
        """Return the tree that a group belongs to; None if it belongs to none."""
        return trees.tree_view(self._state, group, dimension)

    def catalogue(self) -> Catalogue:
        """Return the last copy of the store that arrived here; empty before the first."""
        return self._catalogue

    def defined(self) -> Collection[str]:
        """Return the names of all groups, and of all scalable topics with limits."""
        return self._defined

    def recording(self) -> RecorderHealth | None:
        """Return the health of the recorder; None when nothing is recorded."""
        return None if self.recorder is None else self.recorder.health()

    def connection(self) -> ConnectionState | None:
        """Return the state of the connection to ZooKeeper; None before the first."""
        return self._connection

    def totals(self) -> TrafficTotals:
        """Return the own gate's counts since the start."""
        return self._totals

    def minute(self, group: str, dimension: Dimension) -> MinuteView | None:
        """Return the own gate's counts of the last minute, by the second."""
        return self._seconds.view(group, dimension, self._clock.now_ns())

    def throttled_seconds(self, group: str, dimension: Dimension) -> int:
        """Return the number of seconds in which clients waited at the own gate, since the start."""
        return self._seconds.throttled(group, dimension)
