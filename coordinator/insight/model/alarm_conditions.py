"""The conditions that hold now, of all that can raise an alarm (alarms.py).

Groups are checked one after the other, in step with the board; the conditions of the sidecar itself are
checked at the end of a pass. Certificates cost most, so each group's certificate is checked in one of
`CERTIFICATE_PASSES` passes. A peer is *lost* if the membership drops it without a farewell. It is no
longer lost when it is back, or after `LOST_FOR_NS`: a machine that was removed by force never returns to
say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from coordinator.core.events import Event, GroupsChanged, MembersChanged, UsageReportReceived
from coordinator.core.lifecycle import Lifecycle, Trouble
from coordinator.core.model import NANOS_PER_SECOND, Member
from coordinator.core.settings import AlarmSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.alarms import AlarmCondition, AlarmKind
from coordinator.insight.model.board import GroupRow

LOST_FOR_NS = 24 * 3_600 * NANOS_PER_SECOND
MAX_LOST = 1_000
"""Lost peers that are remembered; with one more, the one that was lost first is forgotten."""

CERTIFICATE_PASSES = 8

_NAMED = 3
_ZOOKEEPER = (Trouble.ZOOKEEPER_SUSPENDED, Trouble.ZOOKEEPER_LOST)


class AlarmConditions:
    """Check the conditions of one sidecar.

    Args:
        settings: the thresholds of alarms.
    """

    def __init__(self, settings: AlarmSettings) -> None:
        self._settings = settings
        self._members: dict[str, Member] = {}
        #: Incarnations that sent a farewell, by broker.
        self._leaving: dict[str, int] = {}
        #: When the membership dropped a peer without a farewell.
        self._lost: dict[str, int] = {}
        self._pass = 0
        #: The conditions of certificates when it was last their group's turn.
        self._certificates: dict[str, AlarmCondition] = {}

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """Note an event that the core has handled."""
        if isinstance(event, UsageReportReceived) and event.report.leaving:
            if event.report.broker in self._members:
                self._leaving[event.report.broker] = event.report.incarnation
        elif isinstance(event, MembersChanged):
            self._compare_members(dict(state.members), state.settings.broker, now_ns)
        elif isinstance(event, GroupsChanged):
            for name in self._certificates.keys() - (state.groups or {}).keys():
                del self._certificates[name]

    def of_group(
        self, state: CoordinatorState, row: GroupRow, now_ns: int
    ) -> Iterator[AlarmCondition]:
        """Yield the conditions of a group that was just sampled; none while it has no participants."""
        if not row.is_used:
            self._certificates.pop(row.group, None)
            return
        if row.observed or state.lifecycle not in (Lifecycle.ACTIVE, Lifecycle.DEGRADED):
            return
        foremost = row.foremost
        if foremost is not None and row.used_permille >= self._settings.near_limit_permille:
            used = row.dimensions[foremost]
            text = (
                f"{row.group} uses {row.used_permille / 10:.0f} % of its {used.limit:,}/s "
                f"({foremost.value})"
            )
            yield AlarmCondition(AlarmKind.GROUP_NEAR_LIMIT, row.group, text)
        if row.throttled:
            text = f"clients of {row.group} wait at {_named(row.throttled)}"
            yield AlarmCondition(AlarmKind.THROTTLED, row.group, text)
        if (crc32(row.group.encode()) + self._pass) % CERTIFICATE_PASSES == 0:
            self._certify(state, row, now_ns)
        if row.group in self._certificates:
            yield self._certificates[row.group]

    def of_sidecar(self, state: CoordinatorState, now_ns: int) -> Iterator[AlarmCondition]:
        """Yield the conditions of this sidecar and its peers; this ends a pass over the groups."""
        self._pass += 1
        broker = state.settings.broker
        for trouble in state.troubles.all():
            if trouble in _ZOOKEEPER:
                yield AlarmCondition(AlarmKind.ZOOKEEPER_LOST, broker, f"{broker}: {trouble.value}")
            elif trouble is Trouble.BUS_SILENT:
                yield AlarmCondition(AlarmKind.BUS_SILENT, broker, f"{broker}: {trouble.value}")
        rounds_ns = {peer: state.usage.round_ns(peer) for peer in state.members}
        differing: dict[str, list[str]] = {}
        for found in state.agreement.disagreements(rounds_ns, now_ns):
            differing.setdefault(found.peer, []).append(found.matter.value)
        for peer, matters in differing.items():
            text = f"{broker} and {peer} go by other {' and '.join(matters)}"
            yield AlarmCondition(AlarmKind.VIEWS_DISAGREE, f"{broker} {peer}", text)
        for peer, since_ns in list(self._lost.items()):
            if now_ns - since_ns >= LOST_FOR_NS:
                del self._lost[peer]
            else:
                yield AlarmCondition(AlarmKind.PEER_LOST, peer, f"{peer} is gone without saying so")

    def _certify(self, state: CoordinatorState, row: GroupRow, now_ns: int) -> None:
        """Check the certificate of the participated dimension that could be exceeded most."""
        self._certificates.pop(row.group, None)
        group = (state.groups or {}).get(row.group)
        if group is None:
            return
        found = {
            dimension: state.certificate(group, dimension, now_ns).most
            for dimension, figures in row.dimensions.items()
            if figures.participants
        }
        exceeded = {
            dimension: most * 1000 // max(1, row.dimensions[dimension].limit)
            for dimension, most in found.items()
            if most is not None
        }
        worst = max(exceeded, key=exceeded.__getitem__, default=None)
        if worst is None or exceeded[worst] <= self._settings.certificate_permille:
            return
        text = (
            f"the local limits of {row.group} may add up to {found[worst]:,}/s of "
            f"{row.dimensions[worst].limit:,}/s ({worst.value})"
        )
        self._certificates[row.group] = AlarmCondition(AlarmKind.CERTIFICATE_HIGH, row.group, text)

    def _compare_members(self, members: dict[str, Member], own: str, now_ns: int) -> None:
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


def _named(brokers: tuple[str, ...]) -> str:
    more = len(brokers) - _NAMED
    named = ", ".join(brokers[:_NAMED])
    return f"{named} and {more} more" if more > 0 else named
