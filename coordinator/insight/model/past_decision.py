"""A decision that an event log keeps, told later: in a story, in a list, as an explanation.

It is kept with the objects that the core decided on, which costs next to nothing when a thousand limits
move at once. Sentences and figures are made when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.core.allocation.laws import Claim
from coordinator.core.allocation.splitting import Binding, Split
from coordinator.core.decisions.decision import Decision
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import LimitKey, MonitoringClass, Rate, Unit
from coordinator.core.rates import in_digits
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.explain import reported, want_of
from coordinator.insight.model.sentences import sentence_of
from coordinator.insight.model.views import (
    Explanation,
    PastDecisionView,
    StoryDecisionView,
    WantView,
)

NAMED_DEMANDS = 3
"""Brokers whose changed demand is named; the others are counted."""


class Outline(NamedTuple):
    """The figures of a decision in which the next one that is kept differs."""

    binding: Binding
    local_limit: Rate | None
    cluster_limit: Rate | None

    def differs(self, last: Outline | None, settings: CoreSettings) -> bool:
        """Return whether a decision is worth keeping after the one last kept; None: none was."""
        if last is None:
            return self.binding is not Binding.UNLIMITED
        if (self.binding, self.cluster_limit) != (last.binding, last.cluster_limit):
            return True
        return settings.moved(last.local_limit, self.local_limit)


@dataclass(frozen=True, slots=True)
class PastDecision:
    """A decision that differs from the one last kept of the same limit.

    Args:
        key: the group and dimension.
        decision: the decision.
        cluster_limit: the limit that the group had for the cluster, per second; None is unlimited.
        last: what the one that was kept before it said; None if it is the first.
        reported: by broker, the admitted rate per second, and the part of its last round in which it
            held clients back, in thousandths.
        lifecycle: the sidecar's state when it decided.
        degradations: its degradations.
        settings: the core's.
    """

    key: LimitKey
    decision: Decision
    cluster_limit: Rate | None
    last: Outline | None
    reported: Mapping[str, tuple[int, int]]
    lifecycle: Lifecycle
    degradations: tuple[Degradation, ...]
    settings: CoreSettings

    @classmethod
    def of(
        cls,
        state: CoordinatorState,
        key: LimitKey,
        decision: Decision,
        cluster_limit: Rate | None,
        last: Outline | None,
        degradations: tuple[Degradation, ...],
    ) -> PastDecision:
        """Return a decision in force, with what it was decided on."""
        group, dimension = key
        rows = state.usage.rows(group, dimension.monitoring_class) if decision.split else {}
        return cls(
            key=key,
            decision=decision,
            cluster_limit=cluster_limit,
            last=last,
            reported={broker: reported(row, dimension) for broker, row in rows.items()},
            lifecycle=state.lifecycle,
            degradations=degradations,
            settings=state.settings,
        )

    @property
    def cells(self) -> int:
        """Return the cells that it takes in the log: itself and a row per participant."""
        return 1 + self.participants

    @property
    def participants(self) -> int:
        """Return the number of brokers that took part."""
        return 0 if self.decision.split is None else len(self.decision.split.claims)

    def told(self, earlier: PastDecision | None) -> StoryDecisionView:
        """Return it as a story has it: what was decided, the demands that moved, and the reason.

        Args:
            earlier: the decision on this limit that was kept before, if it still is.
        """
        return StoryDecisionView(
            self.key[1],
            None if self.last is None else self.last.local_limit,
            self.decision.exact_limit,
            self.decision.binding.value,
            " ".join(filter(None, (self._decided(), self._demands(earlier), self._reason()))),
        )

    def listed(self, number: int, age_ns: int) -> PastDecisionView:
        """Return it in short.

        Args:
            number: the number of its event.
            age_ns: since it was made.
        """
        return PastDecisionView(
            number=number,
            age_ns=age_ns,
            cluster_limit=self.cluster_limit,
            local_limit=self.decision.exact_limit,
            target=self._target(),
            binding=self.decision.binding.value,
            participants=self.participants,
            round=self.decision.round,
            sentence=self._reason(),
        )

    def explanation(self, now_ns: int) -> Explanation:
        """Return the reasons for the limit as it was then; its age is as of now."""
        group, dimension = self.key
        decision, split = self.decision, self.decision.split
        return Explanation(
            group=group,
            dimension=dimension,
            broker=self.settings.broker,
            cluster_limit=self.cluster_limit,
            local_limit=decision.exact_limit,
            target=self._target(),
            binding=decision.binding.value,
            water_level=None if split is None else split.water_level,
            binds=None if split is None else split.binds,
            decided_age_ns=now_ns - decision.decided_ns,
            round=decision.round,
            wants=() if split is None else self._wants(split),
            sentence=self._reason(),
        )

    def _target(self) -> Rate | None:
        split = self.decision.split
        own = self.settings.broker
        return self.decision.exact_limit if split is None else split.exact_target_of(own)

    def _wants(self, split: Split) -> tuple[WantView, ...]:
        own, local = self.settings.broker, self.decision.exact_limit
        return tuple(
            want_of(
                broker,
                claim,
                self.reported.get(broker, (0, 0)),
                local if broker == own else split.exactly_in_force_at(broker),
                self.settings,
            )
            for broker, claim in sorted(split.claims.items())
        )

    def _decided(self) -> str:
        broker, what, unit = self.settings.broker, self.key[1].value, self.key[1].unit
        now = self.decision.exact_limit
        if self.last is None:
            return f"{broker} sets {what} to {_rate(now, unit)}."
        was = self.last.local_limit
        if was == now:
            same = self.last.binding is self.decision.binding
            why = "" if same else ", for another reason"
            return f"{broker} keeps {what} at {_rate(now, unit)}{why}."
        verb = "raises" if now is None or (was is not None and now > was) else "lowers"
        return f"{broker} {verb} {what} from {_rate(was, unit)} to {_rate(now, unit)}."

    def _demands(self, earlier: PastDecision | None) -> str:
        """Return the demands that moved since the earlier decision, the largest moves first."""
        before = None if earlier is None else earlier.decision.split
        after = self.decision.split
        if before is None or after is None:
            return ""
        unit = self.key[1].unit
        moved = _moved(before.claims, after.claims, self.settings)
        named = [_demand(name, was, now, unit) for name, was, now in moved[:NAMED_DEMANDS]]
        if more := len(moved) - len(named):
            named.append(f"{more} more {'demand' if more == 1 else 'demands'} changed")
        return f"Since then {'; '.join(named)}." if named else ""

    def _reason(self) -> str:
        group, dimension = self.key
        broker, made = self.settings.broker, self.decision
        if made.local_limit is None:
            return f"{group} does not limit {dimension.value}."
        if made.split is not None:
            return sentence_of(
                group,
                dimension,
                made.split,
                broker,
                made.exact_limit,
                made.binding,
                self.degradations,
            )
        if made.binding is Binding.RESERVE:
            return self._reserve()
        if made.binding is Binding.GATE:
            return f"{group} has become strict, and its escrow record is not written yet."
        reasons = "; ".join(degradation.value for degradation in self.degradations)
        return f"{broker} is {self.lifecycle.value}: {reasons or 'it has no lease yet'}."

    def _reserve(self) -> str:
        group, dimension = self.key
        broker = self.settings.broker
        if self.lifecycle in (Lifecycle.STARTING, Lifecycle.LEARNING):
            return (
                f"{broker} is {self.lifecycle.value} and holds its arrival reserve until every member "
                "has reported."
            )
        publish = dimension.monitoring_class is MonitoringClass.PUBLISH
        clients = "producers" if publish else "consumers"
        return f"{broker} has no {clients} of {group} and holds its arrival reserve."


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


def _rate(rate: Rate | None, unit: Unit) -> str:
    return "unlimited" if rate is None else f"{in_digits(rate)} {unit.value}/s"
