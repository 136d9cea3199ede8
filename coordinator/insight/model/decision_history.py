"""The past decisions on every group and their reasons: the answer to "what happened at 12:03".

The shell samples group after group (`DecisionHistory.sampled`), in step with the board. A decision is
kept, with its explanation at that moment, if it differs from the last one that was kept: another binding,
another limit of the cluster, other participants, or a local limit that moved by more than
``change_permille``. A group without changes therefore costs nothing, and noise does not push out
important entries.

Bounds: of every group and dimension the last `KEPT_DECISIONS`, fewer when many groups with many brokers
would come to more than `MAX_CELLS` rows of brokers; of a decision, the rows of the `WITNESSES` brokers
with the largest limits and of the own one. Older ones are forgotten: the recorder has all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from coordinator.core.allocation.splitting import Binding
from coordinator.core.decision import Decision
from coordinator.core.model import Dimension, LimitKey, Rate
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model import explain
from coordinator.insight.model.views import Explanation, PastDecisionView, WantView

KEPT_DECISIONS = 100
MAX_CELLS = 200_000
"""Rows of brokers, over all decisions; one takes about 250 bytes."""

WITNESSES = 16
_MIN_DECISIONS = 4


@dataclass(frozen=True, slots=True)
class PastDecision:
    """A decision when it was seen first.

    Args:
        number: grows by one with every decision that is kept, of any group.
        seen_ns: when it was seen; it was in force until the next one of its dimension was seen.
        participants: the number of participants; the explanation may name fewer.
        explanation: the reason at that time. Its ages count back from ``seen_ns``.
    """

    number: int
    seen_ns: int
    participants: int
    explanation: Explanation

    def aged(self, now_ns: int) -> Explanation:
        """Return the explanation with its age as of now; the ages of reports stay as they were."""
        decided_age_ns = now_ns - self.seen_ns + self.explanation.decided_age_ns
        return replace(self.explanation, decided_age_ns=decided_age_ns)

    def view(self, now_ns: int) -> PastDecisionView:
        """Return it in short."""
        then = self.explanation
        return PastDecisionView(
            number=self.number,
            age_ns=now_ns - self.seen_ns,
            cluster_limit=then.cluster_limit,
            local_limit=then.local_limit,
            target=then.target,
            binding=then.binding,
            participants=self.participants,
            round=then.round,
            sentence=then.sentence,
        )


class DecisionHistory:
    """The past decisions of one sidecar on its own limits."""

    def __init__(self) -> None:
        self._kept: dict[LimitKey, deque[PastDecision]] = {}
        #: The outlines of the newest entries.
        self._outlines: dict[LimitKey, _Outline] = {}
        self._room = KEPT_DECISIONS
        self._next = 0

    @property
    def room(self) -> int:
        """Return the most decisions that are kept of every group and dimension."""
        return self._room

    def begin(self, groups: AbstractSet[str]) -> None:
        """Begin a pass over all groups: forget deleted ones, and make room for the others."""
        for key in [key for key in self._kept if key[0] not in groups]:
            del self._kept[key]
            del self._outlines[key]
        cells = sum(len(kept[-1].explanation.wants) + 1 for kept in self._kept.values())
        self._room = max(_MIN_DECISIONS, min(KEPT_DECISIONS, MAX_CELLS // max(1, cells)))

    def sampled(self, state: CoordinatorState, group: str, now_ns: int) -> None:
        """Sample the decisions on one group; a deleted group is left out."""
        for dimension in Dimension:
            key = (group, dimension)
            decision = state.decider.decisions.get(key)
            if decision is None or (decision.local_limit is None and key not in self._kept):
                continue
            outline = _Outline.of(decision, state, key)
            if not outline.differs(self._outlines.get(key), state.settings):
                continue
            self._outlines[key] = outline
            kept = self._kept.setdefault(key, deque())
            kept.append(self._seen(state, key, now_ns))
            while len(kept) > self._room:
                kept.popleft()

    def decisions(self, group: str, dimension: Dimension) -> tuple[PastDecision, ...]:
        """Return the kept decisions of a group and dimension, newest first."""
        return tuple(reversed(self._kept.get((group, dimension), ())))

    def at(self, group: str, dimension: Dimension, when_ns: int) -> PastDecision | None:
        """Return the decision that was in force at a time; None if it is no longer, or not yet, known."""
        kept = self._kept.get((group, dimension), ())
        return next((past for past in reversed(kept) if past.seen_ns <= when_ns), None)

    def _seen(self, state: CoordinatorState, key: LimitKey, now_ns: int) -> PastDecision:
        found = explain.explain(state, *key, None, now_ns)
        shown = replace(found, wants=_witnesses(found.wants, found.broker))
        self._next += 1
        return PastDecision(self._next, now_ns, len(found.wants), shown)


@dataclass(frozen=True, slots=True)
class _Outline:
    """The fields in which two decisions can differ, found without asking the law."""

    binding: Binding
    cluster_limit: Rate | None
    local_limit: Rate | None
    participants: int | None

    @classmethod
    def of(cls, decision: Decision, state: CoordinatorState, key: LimitKey) -> _Outline:
        """Return the outline of a decision in force."""
        group, dimension = key
        return cls(
            decision.binding,
            (state.groups or {})[group].exact_limits.of(dimension),
            decision.exact_limit,
            None if decision.split is None else len(decision.split.claims),
        )

    def differs(self, last: _Outline | None, settings: CoreSettings) -> bool:
        """Return whether this is worth another entry."""
        return (
            last is None
            or (self.binding, self.cluster_limit, self.participants)
            != (last.binding, last.cluster_limit, last.participants)
            or settings.moved(last.local_limit, self.local_limit)
        )


def _witnesses(wants: tuple[WantView, ...], own: str) -> tuple[WantView, ...]:
    if len(wants) <= WITNESSES:
        return wants
    largest = sorted(wants, key=lambda want: (want.broker != own, -(want.limit or 0), want.broker))
    return tuple(sorted(largest[:WITNESSES], key=lambda want: want.broker))
