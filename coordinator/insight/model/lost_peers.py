"""Peers that the membership dropped without a farewell.

The membership says who is there, not who was, and the core remembers a departed broker only as long as
its limit may still be in use (certificate/certifier.py). An operator wants to know for longer: until the
peer is back, or for `LOST_FOR_NS`, as a machine that was removed by force never returns to say so.
"""

from __future__ import annotations

from coordinator.core.events import Event, MembersChanged, UsageReportReceived
from coordinator.core.model import NANOS_PER_SECOND, Member
from coordinator.core.state import CoordinatorState

LOST_FOR_NS = 24 * 3_600 * NANOS_PER_SECOND
MAX_LOST = 1_000
"""Lost peers that are remembered; with one more, the one that was lost first is forgotten."""


class LostPeers:
    """The peers that one sidecar misses."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        #: Incarnations that sent a farewell, by broker.
        self._leaving: dict[str, int] = {}
        #: When the membership dropped a peer without a farewell.
        self._lost: dict[str, int] = {}

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """Note an event that the core has handled."""
        if isinstance(event, UsageReportReceived) and event.report.leaving:
            if event.report.broker in self._members:
                self._leaving[event.report.broker] = event.report.incarnation
        elif isinstance(event, MembersChanged):
            self._compare(dict(state.members), state.settings.broker, now_ns)

    def at(self, now_ns: int) -> tuple[str, ...]:
        """Return the peers that are lost at this time, the one that was lost first in front."""
        return tuple(
            peer for peer, since_ns in self._lost.items() if now_ns - since_ns < LOST_FOR_NS
        )

    def _compare(self, members: dict[str, Member], own: str, now_ns: int) -> None:
        for broker, member in self._members.items():
            said_so = self._leaving.get(broker) == member.incarnation
            if broker not in members and broker != own and not said_so:
                self._lost[broker] = now_ns
        for broker in members:
            self._lost.pop(broker, None)
        while len(self._lost) > MAX_LOST:
            del self._lost[next(iter(self._lost))]
        self._leaving = {name: said for name, said in self._leaving.items() if name in members}
        self._members = members
