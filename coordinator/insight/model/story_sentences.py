"""The sentences of a story: what was decided of an event, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.core.allocation.laws import Claim
from coordinator.core.allocation.splitting import Binding
from coordinator.core.decision import Decision
from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    DrainCompleted,
    DrainRequested,
    Event,
    MembershipJoined,
    ParticipantsChanged,
    SessionConfirmed,
    UsageReportReceived,
)
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import Dimension, MonitoringClass, TrafficKey, Unit
from coordinator.core.settings import CoreSettings
from coordinator.insight.model.sentences import sentence_of

NAMED_DEMANDS = 3
"""Brokers whose changed demand is named; the others are counted."""


@dataclass(frozen=True, slots=True)
class KeptDecision:
    """A decision that differs from the one last kept of the same limit.

    Args:
        dimension: the dimension of the limit.
        decision: the decision.
        was: the limit as it was last kept, per second; None is unlimited.
        is_first: whether no decision was kept before.
        lifecycle: the sidecar's state when it decided.
        degradations: its degradations.
    """

    dimension: Dimension
    decision: Decision
    was: int | None
    is_first: bool
    lifecycle: Lifecycle
    degradations: tuple[Degradation, ...]

    @property
    def cells(self) -> int:
        """Return the cells that it takes in the log: itself and a row per participant."""
        return 1 + (0 if self.decision.split is None else len(self.decision.split.claims))

    def sentence(
        self, group: str, broker: str, earlier: KeptDecision | None, settings: CoreSettings
    ) -> str:
        """Return the decision, the demands that changed, and the reason for the limit.

        Args:
            group: the group.
            broker: the broker that decided.
            earlier: the decision kept before, if it is still known.
            settings: the core's, which say how far a demand has to move to be named.
        """
        parts = (
            self._decided(broker),
            self._demands(earlier, settings),
            self._reason(group, broker),
        )
        return " ".join(filter(None, parts))

    def _decided(self, broker: str) -> str:
        what, unit = self.dimension.value, self.dimension.unit
        was, now = self.was, self.decision.local_limit
        if self.is_first:
            return f"{broker} sets {what} to {_rate(now, unit)}."
        if was == now:
            return f"{broker} keeps {what} at {_rate(now, unit)}, for another reason."
        verb = "raises" if now is None or (was is not None and now > was) else "lowers"
        return f"{broker} {verb} {what} from {_rate(was, unit)} to {_rate(now, unit)}."

    def _demands(self, earlier: KeptDecision | None, settings: CoreSettings) -> str:
        """Return the demands that moved since the earlier decision, the largest moves first."""
        before = None if earlier is None else earlier.decision.split
        after = self.decision.split
        if before is None or after is None:
            return ""
        unit = self.dimension.unit
        moved = _moved(before.claims, after.claims, settings)
        named = [_demand(name, was, now, unit) for name, was, now in moved[:NAMED_DEMANDS]]
        if more := len(moved) - len(named):
            named.append(f"{more} more {'demand' if more == 1 else 'demands'} changed")
        return f"Since then {'; '.join(named)}." if named else ""

    def _reason(self, group: str, broker: str) -> str:
        after = self.decision
        if after.local_limit is None:
            return f"{group} does not limit {self.dimension.value}."
        if after.split is not None:
            return sentence_of(
                group,
                self.dimension,
                after.split,
                broker,
                after.local_limit,
                after.binding,
                self.degradations,
            )
        if after.binding is Binding.RESERVE:
            return self._reserve(group, broker)
        if after.binding is Binding.GATE:
            return f"{group} has become strict, and its escrow record is not written yet."
        reasons = "; ".join(degradation.value for degradation in self.degradations)
        return f"{broker} is {self.lifecycle.value}: {reasons or 'it has no lease yet'}."

    def _reserve(self, group: str, broker: str) -> str:
        if self.lifecycle in (Lifecycle.STARTING, Lifecycle.LEARNING):
            return (
                f"{broker} is {self.lifecycle.value} and holds its arrival reserve until every member "
                "has reported."
            )
        publish = self.dimension.monitoring_class is MonitoringClass.PUBLISH
        clients = "producers" if publish else "consumers"
        return f"{broker} has no {clients} of {group} and holds its arrival reserve."


def event_sentence(event: Event, own: str) -> str:  # noqa: PLR0911  # one row per event
    """Return an event as a sentence; groups, books and members are compared by the log.

    Args:
        event: the event.
        own: the broker of the sidecar that handled it.
    """
    match event:
        case UsageReportReceived(report):
            what = "its farewell" if report.leaving else f"report {report.sequence:,}"
            return f"{report.broker} sent {what}."
        case SessionConfirmed():
            return f"ZooKeeper confirmed the session of {own}."
        case ParticipantsChanged(group, monitoring_class, participants):
            publish = monitoring_class is MonitoringClass.PUBLISH
            client = "producer" if publish else "consumer"
            if participants:
                return f"The first {client} of {group} connected at {own}."
            return f"The last {client} of {group} left {own}."
        case ConnectionChanged(connection):
            return f"The connection of {own} to ZooKeeper is {connection.value}."
        case MembershipJoined(incarnation):
            return f"ZooKeeper registered {own} as incarnation {incarnation:,}."
        case BrokerAvailabilityChanged(answering):
            return f"The broker of {own} {'answers' if answering else 'stopped answering'}."
        case DrainRequested():
            return f"{own} was told to stop."
        case DrainCompleted():
            return f"{own} has no traffic under way any more."
        case _:
            return f"{own} handled {type(event).__name__}."


def backlog_sentence(key: TrafficKey, began: bool, held_permille: int, rates: Sequence[int]) -> str:  # noqa: FBT001
    """Return that clients of a group began or ceased to wait.

    Args:
        key: the group and class.
        began: whether they began to wait; otherwise they ceased.
        held_permille: the part of the last round in which a client waited, in thousandths.
        rates: messages and bytes admitted per second; empty if they are not known.
    """
    group, monitoring_class = key
    clients = "producers" if monitoring_class is MonitoringClass.PUBLISH else "consumers"
    passed = f"; {rates[0]:,} messages/s and {rates[1]:,} bytes/s passed" if rates else ""
    waited = f"they waited for {held_permille / 10:g} % of the last round{passed}"
    if began:
        return f"A backlog began: {clients} of {group} wait for tokens, {waited}."
    return f"The backlog ended: {clients} of {group} wait for tokens no more, {waited}."


def _moved(
    before: Mapping[str, Claim], after: Mapping[str, Claim], settings: CoreSettings
) -> list[tuple[str, Claim | None, Claim | None]]:
    found = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was is None or now is None or settings.moved(was.wants, now.wants):
            found.append((name, was, now))
    return sorted(found, key=lambda each: -_move(each[1], each[2]))


def _move(was: Claim | None, now: Claim | None) -> float:
    """Return the size of a move, for the order; a demand without a bound moves most."""
    if (was is not None and was.wants is None) or (now is not None and now.wants is None):
        return float("inf")
    return abs((now.wants or 0 if now else 0) - (was.wants or 0 if was else 0))


def _demand(name: str, was: Claim | None, now: Claim | None, unit: Unit) -> str:
    if now is None:
        return f"{name} takes no part any more"
    wants = _wanted(now, unit)
    if was is None:
        return f"{name} takes part and wants {wants}"
    return f"{name} wants {wants}, before {_wanted(was, unit)}"


def _wanted(claim: Claim, unit: Unit) -> str:
    return "more than it gets" if claim.wants is None else _rate(claim.wants, unit)


def _rate(rate: int | None, unit: Unit) -> str:
    return "unlimited" if rate is None else f"{rate:,} {unit.value}/s"
