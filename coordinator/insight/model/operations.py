"""Changes and their progress from accepted over converging to settled, with the gain of each broker.

An *operation* is one change of a group's definition or attachments. It is *accepted* when the store has
it, *converging* when this sidecar decides by it, and *settled* when all limited dimensions of the group
have stayed settled (settling.py) for `_STILL_ROUNDS` rounds; the first of these is the time that counts.
A later change of the same group makes an unsettled one *superseded*: further moves belong to the later
one. An operation that is not settled after `_GIVE_UP_NS` is *unsettled*: another cause keeps the group
moving.

An operation is a value that gets the time as an argument, so any sidecar that reads it can go on with it:
`begin` makes one, `advance` brings it up to date.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from coordinator.core.answer import Age, answer
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import NANOS_PER_SECOND, Dimension
from coordinator.insight.model.settling import SETTLED_PERMILLE, in_force, residual_permille

if TYPE_CHECKING:  # the gate's process has the words of an operation, and no core
    from coordinator.core.state import CoordinatorState

_STILL_ROUNDS = 2
_GIVE_UP_NS = 600 * NANOS_PER_SECOND


class OperationStage(Enum):
    """The progress of an operation."""

    ACCEPTED = "accepted"
    CONVERGING = "converging"
    SETTLED = "settled"
    SUPERSEDED = "superseded"
    UNSETTLED = "unsettled"

    @property
    def is_final(self) -> bool:
        """Return whether the operation changes no more."""
        return self not in (OperationStage.ACCEPTED, OperationStage.CONVERGING)


Holdings = Mapping[Dimension, Mapping[str, int]]
"""Local limits in force, per second, by limited dimension and participant."""


@answer
class OperationView:
    """One change, and the cluster's progress with it."""

    id: int
    age_millis: int
    """since it was accepted, by ZooKeeper's clock and this host's"""
    group: str
    subject: str
    """groups/G, tenants/T or namespaces/T/N"""
    text: str
    """the change in words"""
    actor: str
    """the token's role, or anonymous"""
    taker: str
    """the broker whose sidecar took it"""
    state: str
    """accepted, converging, settled, superseded or unsettled"""
    settle_ns: Age | None
    """from accepted to settled; null = not settled"""
    residual: float | None
    """distance of the broker furthest from its target, in parts of C/N"""
    moved: Mapping[Dimension, Mapping[str, int]]
    """by dimension, the one that moved most in proportion first, and broker: what its limit gained, or
    lost, per second"""


@dataclass(frozen=True, slots=True)
class Operation:
    """One change.

    Args:
        id: given by the store; grows.
        group: the changed group.
        version: of the group's definition with this change; 0 when it was not the definition.
        subject: the changed object, as in the audit trail.
        text: the change in words.
        actor: the role that made the change.
        taker: the broker whose sidecar accepted it, and follows it as long as that is a member.
        before: the local limits before it.
        stage: its progress.
        settle_ns: from accepted to settled; None while it is not.
        residual_permille: the distance of the broker furthest off from its target, in thousandths of C/N.
        moved: by dimension and broker, local limit after less that before, of each broker that
            gained or lost.
        tenant: as whose admin the role made it; empty is a super-user.
    """

    id: int
    group: str
    version: int
    subject: str
    text: str
    actor: str
    taker: str
    before: Holdings = field(default_factory=dict)
    stage: OperationStage = OperationStage.ACCEPTED
    settle_ns: int | None = None
    residual_permille: int | None = None
    moved: Holdings = field(default_factory=dict)
    tenant: str = ""

    def view(self, age_millis: int) -> OperationView:
        """Return it for an operator."""
        off = self.residual_permille
        return OperationView(
            id=self.id,
            age_millis=age_millis,
            group=self.group,
            subject=self.subject,
            text=self.text,
            actor=self.actor,
            taker=self.taker,
            state=self.stage.value,
            settle_ns=self.settle_ns,
            residual=None if off is None else off / 1000,
            moved=self._most_first(),
        )

    def _most_first(self) -> Holdings:
        """Return what moved; first the dimension of which the largest part did."""

        def part(dimension: Dimension) -> float:
            whole = sum(self.before.get(dimension, {}).values())
            return sum(map(abs, self.moved[dimension].values())) / max(1, whole)

        ordered = sorted(self.moved, key=lambda each: (-part(each), each.value))
        return {dimension: self.moved[dimension] for dimension in ordered}


@dataclass(frozen=True, slots=True)
class Followed:
    """An operation that is followed: since when, and since when it has been still."""

    operation: Operation
    begun_ns: int
    still_ns: int | None = None
    still_round: int = 0


def holdings(state: CoordinatorState, group: str) -> Holdings:
    """Return the present local limit of every participant of a group, as known here."""
    known = ((dimension, in_force(state, group, dimension)) for dimension in Dimension)
    return {dimension: held for dimension, held in known if held is not None}


def advance(followed: Followed, state: CoordinatorState, now_ns: int) -> Followed:
    """Bring an operation up to date; a final one stays as it is."""
    operation = followed.operation
    if operation.stage.is_final:
        return followed
    group = (state.groups or {}).get(operation.group)
    if group is None or now_ns - followed.begun_ns > _GIVE_UP_NS:
        stage = OperationStage.SETTLED if group is None else OperationStage.UNSETTLED
        return _ended(followed, state, stage, now_ns)
    if group.configuration_version < operation.version:
        return followed  # the definition has not arrived here yet
    return _look(followed, state, now_ns)


def _look(followed: Followed, state: CoordinatorState, now_ns: int) -> Followed:
    """Check, after the definition has arrived, whether the group has settled, and since when."""
    residual = _residual_permille(state, followed.operation.group)
    operation = replace(
        followed.operation, stage=OperationStage.CONVERGING, residual_permille=residual
    )
    followed = replace(followed, operation=operation)
    if residual is None or residual > SETTLED_PERMILLE:
        return replace(followed, still_ns=None)
    if followed.still_ns is None:
        return replace(followed, still_ns=now_ns, still_round=state.round)
    if state.round - followed.still_round < _STILL_ROUNDS:
        return followed
    return _ended(followed, state, OperationStage.SETTLED, followed.still_ns)


def superseded(followed: Followed, state: CoordinatorState, now_ns: int) -> Followed:
    """Mark an operation as superseded by a later change of the same group."""
    return _ended(followed, state, OperationStage.SUPERSEDED, now_ns)


def _ended(
    followed: Followed, state: CoordinatorState, stage: OperationStage, ended_ns: int
) -> Followed:
    operation = followed.operation
    settled = stage is OperationStage.SETTLED
    ended = replace(
        operation,
        stage=stage,
        settle_ns=ended_ns - followed.begun_ns if settled else None,
        moved=_moved(operation.before, holdings(state, operation.group)),
    )
    return replace(followed, operation=ended)


def _residual_permille(state: CoordinatorState, group: str) -> int | None:
    """Return the residual of the dimension that is furthest off; None if it is unknown."""
    if state.lifecycle is not Lifecycle.ACTIVE or state.groups is None:
        return None
    limited = [
        dimension for dimension in Dimension if state.groups[group].limits.of(dimension) is not None
    ]
    worst = 0
    for dimension in limited:
        off = residual_permille(state, group, dimension)
        if off is None:
            return None
        worst = max(worst, off)
    return worst


def _moved(before: Holdings, after: Holdings) -> Holdings:
    """Return the differences of dimensions in both; a newly limited or unlimited one has none."""
    found = {}
    for dimension in before.keys() & after.keys():
        old, new = before[dimension], after[dimension]
        differences = {
            broker: new.get(broker, 0) - old.get(broker, 0)
            for broker in sorted(old.keys() | new.keys())
            if new.get(broker, 0) != old.get(broker, 0)
        }
        if differences:
            found[dimension] = differences
    return found
