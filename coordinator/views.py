"""How a sidecar is right now: what its core knows, and what it has counted and heard beside it.

The runner tells what happens; whoever asks gets what is so at that moment. Nothing here waits, and
nothing is kept for longer than it is true: counts are kept of groups that there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from coordinator.core import explain, shadow, what_if
from coordinator.core.certificate import Certificate
from coordinator.core.events import ConnectionState
from coordinator.core.model import Dimension, Traffic
from coordinator.core.seconds import MinuteView, TrafficSeconds
from coordinator.core.shadow import Comparison
from coordinator.core.state import CoordinatorState
from coordinator.core.views import Explanation, GroupView, HealthView
from coordinator.ports import Catalogue, Clock, Recorder, RecorderHealth
from coordinator.totals import TrafficTotals
from coordinator.wire.intake import Intake


class SidecarViews:
    """What one sidecar knows (admin_api.backend.Views).

    Args:
        state: the core.
        clock: monotonic time.
        intake: reads the reports.
    """

    def __init__(self, state: CoordinatorState, clock: Clock, intake: Intake) -> None:
        self._state = state
        self._clock = clock
        self._intake = intake
        self._bad_payloads: Counter[str] = Counter()
        self._catalogue = Catalogue()
        self._connection: ConnectionState | None = None
        self._totals = TrafficTotals()
        self._seconds = TrafficSeconds()
        #: Records what happens, if anything does.
        self.recorder: Recorder | None = None

    # What happens.

    def connection_changed(self, state: ConnectionState) -> None:
        """The connection to ZooKeeper is another."""
        self._connection = state

    def catalogue_changed(self, catalogue: Catalogue) -> None:
        """A copy of the store has arrived."""
        self._catalogue = catalogue
        self._totals.keep(catalogue.groups.keys())
        self._seconds.keep(catalogue.groups.keys())

    def payload_dropped(self, reason: str) -> bool:
        """Something on the bus was no report; return whether it is the first for this reason."""
        self._bad_payloads[reason] += 1
        return self._bad_payloads[reason] == 1

    def traffic_counted(self, observed: Sequence[Traffic]) -> None:
        """The own gate has counted this since the last time."""
        self._totals.add(observed)
        self._seconds.add(observed, self._clock.now_ns())

    # What is asked.

    def health(self) -> HealthView:
        """How this sidecar is; what was no report at all is counted with the dropped reports."""
        view = explain.health(self._state, self._clock.now_ns())
        dropped = view.reports_dropped | self._bad_payloads
        if self._intake.dropped:
            dropped["definition not known for too long"] = self._intake.dropped
        return replace(view, reports_dropped=dropped)

    def group_view(self, group: str) -> GroupView:
        """One group with a row for every member; raises UnknownGroup."""
        return explain.group_view(self._state, group, self._clock.now_ns())

    def explain(self, group: str, dimension: Dimension, broker: str | None) -> Explanation:
        """Why a local limit is what it is; raises UnknownGroup and UnknownBroker."""
        now_ns = self._clock.now_ns()
        explanation = explain.explain(self._state, group, dimension, broker, now_ns)
        minute = None
        if explanation.broker == self._state.settings.broker:
            minute = self._seconds.view(group, dimension, now_ns)
        if minute is None:
            return explanation
        said = (explanation.sentence, minute.sentence(explanation.local_limit))
        return replace(explanation, sentence=" ".join(filter(None, said)), minute=minute)

    def would_change(self, group: str, dimension: Dimension, broker: str | None) -> tuple[str, ...]:
        """What would give a broker that is cut another limit."""
        return what_if.would_change(self._state, group, dimension, broker)

    def shadow_law(self) -> str | None:
        """The law that every group's own is compared with."""
        return self._state.settings.shadow_law

    def shadow(self, group: str, dimension: Dimension, law: str) -> Comparison | None:
        """What another law would make of a dimension, if it is limited; raises UnknownGroup."""
        return shadow.compare(self._state, group, dimension, law)

    def certificates(self, group: str) -> tuple[Certificate, ...]:
        """The most that a group's local limits can add up to now; raises UnknownGroup."""
        return explain.certificates(self._state, group, self._clock.now_ns())

    def catalogue(self) -> Catalogue:
        """The last copy of the store that arrived here; empty before the first."""
        return self._catalogue

    def recording(self) -> RecorderHealth | None:
        """How recording goes; None when nothing is to be recorded."""
        return None if self.recorder is None else self.recorder.health()

    def connection(self) -> ConnectionState | None:
        """The connection to ZooKeeper; None before the first."""
        return self._connection

    def totals(self) -> TrafficTotals:
        """What the own gate has counted since the start."""
        return self._totals

    def minute(self, group: str, dimension: Dimension) -> MinuteView | None:
        """What the own gate has counted in the last minute, by the second."""
        return self._seconds.view(group, dimension, self._clock.now_ns())

    def throttled_seconds(self, group: str, dimension: Dimension) -> int:
        """In how many seconds clients waited at the own gate, since the start."""
        return self._seconds.throttled(group, dimension)
