"""From the usage map to this broker's local limit of one group and dimension.

1. *Claims*: every participant (a member with at least one producer or consumer of the group) claims its
   demand, as it estimates it itself (demand/estimator.py); the demand of a saturated broker is unbounded.
   It counts as many times as the group's ``weights`` say: once, or once per topic with a connected
   client.
2. *Reserve*: a small part of the limit, ``arrival_reserve_permille`` for all members together. It is the
   least that a participant claims, and all that a member gets that takes no part. It lets a first
   producer through before the others have made room, and a new incarnation starts from it. A broker that
   reports nothing of a group therefore holds exactly the reserve, and no broker has to announce that.
3. *Law*: the law splits the limit, less the reserves of the members that take no part, among the
   participants. A group under max-min that limits both messages and bytes of a class has both split
   together (laws/joint.py): a broker that is throttled in one unit is throttled in both, and uses them in
   the proportion of its mean message size. The other laws split one unit at a time.
4. *Fractions*: where the level is below `WHOLE_FROM`, whole numbers would be far from equal, and of two a
   second the third of three brokers would have none for ever. A limit may have a fraction itself, such as
   0.5/s. In both cases a broker's target is the whole part of its exact one, and the fraction is enforced
   beside it. Whole parts are what is announced, raised and certified; all fractions together are what
   these leave of the limit, so they need no protocol: brokers that see other participants for the time of
   a report exceed the limit by less than one a second each. Under ``strict`` the books hold fractions as
   they are, and nothing is exceeded. Under max-min alone, of limits of one unit, outside trees;
   `fault_of_fractions` says so of a limit that has one.
5. *Policy*: how much of the target may be in force now, given the limits that the others announce.

Every sidecar computes this from the same facts, so equal views give equal splits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import Final

from coordinator.core.allocation.laws import (
    ALL_LAWS,
    JOINT_LAW,
    Allocation,
    Claim,
    JointClaim,
    exact_parts,
    joint_max_min,
)
from coordinator.core.model import (
    DIMENSIONS_OF,
    Dimension,
    MonitoringClass,
    Rate,
    ResourceGroup,
    TrafficKey,
    Unit,
    Usage,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import UsageMap
from coordinator.core.usage.rows import UsageRow

WHOLE_FROM: Final = 10
"""The level, per second and unit of weight, from which whole numbers are equal enough."""

NO_FRACTION: Final = Fraction(0)

WEIGHTS: Mapping[str, Callable[[Usage], int]] = {
    "equal": lambda usage: 1,  # noqa: ARG005  # every rule has the same signature
    "topics": lambda usage: max(1, usage.topics),
}
"""The weight of a participant, by the name that a group's ``weights`` setting uses."""


class Binding(Enum):
    """The cause that keeps a local limit as low as it is."""

    UNLIMITED = "unlimited"
    DEMAND = "demand"
    LEVEL = "level"
    RESERVE = "reserve"
    GATE = "gate"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class Question:
    """The input of the law for one group and dimension.

    Args:
        limit: the group's limit for the cluster, per second.
        reserve: the rate that a member holds that takes no part, per second.
        idle: how many members take no part; all of them together hold ``idle * reserve``.
        claims: the claim of each participant.
        in_force: the local limit that each participant announces to hold.
        ceilings: the limit up to which each participant may raise itself before it reports again.
    """

    limit: int
    reserve: int
    idle: int
    claims: Mapping[str, Claim]
    in_force: Mapping[str, int]
    ceilings: Mapping[str, int]

    @property
    def shared(self) -> int:
        """Return the sum that the participants share, per second."""
        return self.limit - self.idle * self.reserve


@dataclass(frozen=True, slots=True)
class Split(Question):
    """The answer of the law, with its input.

    Args:
        targets: the rate that each participant should hold.
        water_level: the level at which brokers are limited; None if every broker gets all of its
            demand.
        binds: of a joint split of messages and bytes, the unit that is used up.
        fraction: what the limit has beside its whole part.
        fractions: the part of its exact target, below 1, that each broker has beside the whole one.
    """

    targets: Mapping[str, int]
    water_level: int | None
    binds: Unit | None = None
    fraction: Fraction = NO_FRACTION
    fractions: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def exact_limit(self) -> Rate:
        """Return the group's limit with its fraction, per second."""
        return self.limit + self.fraction

    @property
    def exactly_shared(self) -> Rate:
        """Return the sum that the participants share with the limit's fraction, per second."""
        return self.shared + self.fraction

    def target_of(self, broker: str) -> int:
        """Return the rate that a member should hold."""
        return self.targets.get(broker, self.reserve)

    def exact_target_of(self, broker: str) -> Rate:
        """Return the rate that a member should hold, with its fraction."""
        return self.target_of(broker) + self.fractions.get(broker, 0)

    def in_force_at(self, broker: str) -> int:
        """Return the local limit that a member announces to hold."""
        return self.in_force.get(broker, self.reserve)

    def exactly_in_force_at(self, broker: str) -> Rate:
        """Return the same with the fraction that a member enforces beside its target."""
        local = self.in_force_at(broker)
        return self.exact_target_of(broker) if local == self.target_of(broker) else local

    def held(self) -> int:
        """Return the sum of the limits that all members announce to hold."""
        return sum(self.in_force.values()) + self.idle * self.reserve

    def with_caps(self, brokers: Collection[str]) -> Split:
        """Return this split with these brokers holding at most an equal part, whatever they announce.

        Equal by weight; or their target, where that is higher.
        """
        whole = sum(claim.weight for claim in self.claims.values())
        most = {
            broker: max(self.targets[broker], self.limit * self.claims[broker].weight // whole)
            for broker in brokers
            if broker in self.claims
        }
        if not most:
            return self
        in_force = {broker: min(self.in_force[broker], part) for broker, part in most.items()}
        ceilings = {broker: min(self.ceilings[broker], part) for broker, part in most.items()}
        return replace(
            self,
            in_force={**self.in_force, **in_force},
            ceilings={**self.ceilings, **ceilings},
        )

    def binding_of(self, broker: str, local: int) -> Binding:
        """Return the cause that keeps a broker's local limit where it is."""
        if local < self.target_of(broker):
            return Binding.GATE
        claim = self.claims.get(broker)
        if claim is None:
            return Binding.RESERVE
        if self.water_level is None or (claim.wants is not None and claim.wants <= local):
            return Binding.DEMAND
        return Binding.LEVEL


def reserve_of(limit: int, members: int, settings: CoreSettings) -> int:
    """Return one member's arrival reserve, per second; 0 for a limit too small to split."""
    return limit * settings.arrival_reserve_permille // 1000 // max(1, members)


def reserve_in(
    group: ResourceGroup, dimension: Dimension, members: int, settings: CoreSettings
) -> int:
    """Return one member's arrival reserve in a group: of its limit, or in a tree its entitlement."""
    return reserve_of(group.base_of(dimension) or 0, members, settings)


def split(
    group: ResourceGroup,
    dimension: Dimension,
    members: Collection[str],
    usage: UsageMap,
    settings: CoreSettings,
) -> Split:
    """Split a group's limit of one dimension among the members.

    Raises:
        ValueError: the group does not limit this dimension.
    """
    if group.limits.of(dimension) is None:
        raise ValueError(f"{group.name} does not limit {dimension.value}")
    return split_class(group, dimension.monitoring_class, members, usage, settings)[dimension]


def split_class(
    group: ResourceGroup,
    monitoring_class: MonitoringClass,
    members: Collection[str],
    usage: UsageMap,
    settings: CoreSettings,
) -> dict[Dimension, Split]:
    """Split all limits of a group on a class; both units together where the law can do that."""
    rows = usage.rows(group.name, monitoring_class)
    return split_rows(group, monitoring_class, rows, len(members), settings)


def split_rows(
    group: ResourceGroup,
    monitoring_class: MonitoringClass,
    rows: Mapping[str, UsageRow],
    members: int,
    settings: CoreSettings,
) -> dict[Dimension, Split]:
    """Split as ``split_class`` does, among ``members`` brokers of which those with a row take part."""
    answer = _answer(group, _ask_class(group, monitoring_class, rows, members, settings), rows)
    return _with_fractions(group, answer)


def split_many(
    wanted: Sequence[tuple[ResourceGroup, MonitoringClass]],
    members: Collection[str],
    usage: UsageMap,
    settings: CoreSettings,
) -> dict[TrafficKey, dict[Dimension, Split]]:
    """Split as ``split_class`` does, for many groups; compute those of one unit under max-min at once."""
    from coordinator.core.allocation.fill import max_min_of_all  # noqa: PLC0415 - loads numpy: few sidecars need it

    made: dict[TrafficKey, dict[Dimension, Split]] = {}
    alone: list[tuple[TrafficKey, Dimension, Question]] = []
    for group, monitoring_class in wanted:
        key = (group.name, monitoring_class)
        rows = usage.rows(*key)
        questions = _ask_class(group, monitoring_class, rows, len(members), settings)
        if rows and group.law == JOINT_LAW and len(questions) == 1:
            alone += [(key, dimension, asked) for dimension, asked in questions.items()]
        else:
            made[key] = _answer(group, questions, rows)
    answers = max_min_of_all([(asked.shared, asked.claims) for _, _, asked in alone])
    for (key, dimension, asked), answer in zip(alone, answers, strict=True):
        made[key] = {dimension: _split_of(asked, answer)}
    for group, monitoring_class in wanted:
        key = (group.name, monitoring_class)
        made[key] = _with_fractions(group, made[key])
    return made


def _ask_class(
    group: ResourceGroup,
    monitoring_class: MonitoringClass,
    rows: Mapping[str, UsageRow],
    members: int,
    settings: CoreSettings,
) -> dict[Dimension, Question]:
    return {
        dimension: _ask(group, dimension, limit, rows, members, settings)
        for dimension in DIMENSIONS_OF[monitoring_class]
        if (limit := group.limits.of(dimension)) is not None
    }


def _answer(
    group: ResourceGroup,
    questions: Mapping[Dimension, Question],
    rows: Mapping[str, UsageRow],
) -> dict[Dimension, Split]:
    if not rows:
        nothing = Allocation({}, water_level=None)
        return {dimension: _split_of(asked, nothing) for dimension, asked in questions.items()}
    if group.law == JOINT_LAW and len(questions) == len(Unit):
        return _split_jointly(questions, rows)
    law = ALL_LAWS[group.law]
    return {
        dimension: _split_of(asked, law(asked.shared, asked.claims))
        for dimension, asked in questions.items()
    }


def _with_fractions(group: ResourceGroup, splits: dict[Dimension, Split]) -> dict[Dimension, Split]:
    """Return splits with exact targets where whole ones would be far from equal; see the head."""
    if group.entitled is not None or group.law != JOINT_LAW or len(splits) > 1:
        return splits
    of_limits = dict(group.fractions)
    return {
        dimension: _exact(found, of_limits.get(dimension, NO_FRACTION))
        for dimension, found in splits.items()
    }


def _exact(found: Split, fraction: Fraction) -> Split:
    weight = sum(claim.weight for claim in found.claims.values())
    is_small = found.water_level is not None and found.shared < WHOLE_FROM * weight
    if not weight or not (is_small or fraction):
        return replace(found, fraction=fraction) if fraction else found
    parts = exact_parts(found.shared + fraction, found.claims)
    whole = {name: int(part) for name, part in parts.items()}
    fractions = {
        name: Fraction(part) - whole[name] for name, part in parts.items() if part != whole[name]
    }
    return replace(found, targets=whole, fraction=fraction, fractions=fractions)


def fault_of_fractions(group: ResourceGroup) -> str:
    """Return why a group cannot have the fractions of its limits, and the fix; empty if it can."""
    for dimension, _ in group.fractions:
        field_name, other = dimension.value, _other_unit(dimension)
        if dimension.unit is Unit.BYTES:
            return f"{field_name}: must be whole; only limits of messages may have a fraction"
        if group.law != JOINT_LAW:
            return f"{field_name}: a fraction needs law {JOINT_LAW}, but law is {group.law}"
        if group.parent:
            return f"{field_name}: a fraction needs a group without a parent; use a whole number"
        if group.limits.of(other) is not None:
            return (
                f"{field_name}: a fraction needs {other.value} -1; use a whole number, or lift that"
            )
    return ""


def _other_unit(dimension: Dimension) -> Dimension:
    messages, bytes_ = DIMENSIONS_OF[dimension.monitoring_class]
    return bytes_ if dimension is messages else messages


def _split_of(asked: Question, answer: Allocation, binds: Unit | None = None) -> Split:
    """Return the split that follows from a question and the answer of the law."""
    return Split(
        asked.limit,
        asked.reserve,
        asked.idle,
        asked.claims,
        asked.in_force,
        asked.ceilings,
        answer.targets,
        answer.water_level,
        binds,
    )


def _ask(
    group: ResourceGroup,
    dimension: Dimension,
    limit: int,
    rows: Mapping[str, UsageRow],
    members: int,
    settings: CoreSettings,
) -> Question:
    reserve = reserve_in(group, dimension, members, settings)
    weight_of = WEIGHTS[group.weights]
    claims = {
        name: _claim(row, dimension, limit, reserve, weight_of(row.usage))
        for name, row in rows.items()
    }
    in_force = {name: _in_force(row, dimension, limit) for name, row in rows.items()}
    ceilings = {
        name: max(reserve, held, rows[name].usage.ceiling_of(dimension.unit) or 0)
        for name, held in in_force.items()
    }
    return Question(limit, reserve, members - len(claims), claims, in_force, ceilings)


def _split_jointly(
    questions: Mapping[Dimension, Question], rows: Mapping[str, UsageRow]
) -> dict[Dimension, Split]:
    messages, bytes_ = questions.values()
    claims = {
        name: _joint_claim(messages.claims[name], bytes_.claims[name], row.usage.message_size)
        for name, row in rows.items()
    }
    answer = joint_max_min((messages.shared, bytes_.shared), claims)
    return {
        dimension: _split_of(asked, answer.of(dimension.unit), answer.binds)
        for dimension, asked in questions.items()
    }


def _claim(row: UsageRow, dimension: Dimension, limit: int, reserve: int, weight: int) -> Claim:
    demand = row.usage.demand_of(dimension.unit)
    wants = None if demand is None else max(reserve, demand)
    return Claim(wants, weight, used=min(limit, row.rate_of(dimension)))


def _joint_claim(messages: Claim, bytes_: Claim, message_size: int) -> JointClaim:
    """Join two claims: a demand hidden in one unit is hidden in both, as more messages are more bytes."""
    if messages.wants is None or bytes_.wants is None:
        proportion = (1, message_size) if message_size else (0, 0)
        return JointClaim(proportion, hidden=True, weight=messages.weight)
    return JointClaim((messages.wants, bytes_.wants), weight=messages.weight)


def _in_force(row: UsageRow, dimension: Dimension, limit: int) -> int:
    announced = row.usage.limit_of(dimension.unit)
    # A broker that does not know this limit yet may admit any rate: no broker raises meanwhile.
    return limit if announced is None else announced
