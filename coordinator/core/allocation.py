"""From the usage map to this broker's local limit of one group and dimension.

1. *Claims*: every participant (a member with at least one producer or consumer of the group) claims its
   demand, as it estimates it itself (demand.py); a saturated broker's demand is unbounded. It counts as
   many times as the group's ``weights`` say: once, or once per topic that somebody is connected to.
2. *Reserve*: a small part of the limit, ``arrival_reserve_permille`` for all members together, is the
   least that a broker claims and all that a broker gets that takes no part. It lets a first producer
   through before the others have made room, and it is what a new incarnation starts from. So a broker
   that says nothing about a group holds exactly the reserve, and nobody has to announce that.
3. *Law*: what is left after the reserves of those that take no part is split among the participants.
4. *Policy*: how much of the target may be in force now, given what the others announce to hold.

Everything here is computed from the same facts on every sidecar, so equal views give equal splits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from coordinator.core.laws import ALL_LAWS, Claim
from coordinator.core.model import Dimension, ResourceGroup, Usage
from coordinator.core.settings import CoreSettings
from coordinator.core.usage_map import UsageMap, UsageRow

WEIGHTS: Mapping[str, Callable[[Usage], int]] = {
    "equal": lambda usage: 1,  # noqa: ARG005  # every rule has the same signature
    "topics": lambda usage: max(1, usage.topics),
}
"""How many times a participant counts, by the name that a group's ``weights`` setting uses."""


class Binding(Enum):
    """What makes a local limit as low as it is."""

    UNLIMITED = "unlimited"
    DEMAND = "demand"
    LEVEL = "level"
    RESERVE = "reserve"
    GATE = "gate"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class Split:
    """The law's answer for one group and dimension, with what it was made from.

    Args:
        limit: the group's limit for the cluster, per second.
        reserve: what a member that takes no part holds, per second.
        idle: how many members take no part; all of them together hold ``idle * reserve``.
        claims: what each participant wants.
        targets: what each participant should hold.
        in_force: the local limit that each participant announces to hold.
        water_level: where the greedy ones were cut; None when everybody gets what it wants.
    """

    limit: int
    reserve: int
    idle: int
    claims: Mapping[str, Claim]
    targets: Mapping[str, int]
    in_force: Mapping[str, int]
    water_level: int | None

    def target_of(self, broker: str) -> int:
        """What a member should hold."""
        return self.targets.get(broker, self.reserve)

    def in_force_at(self, broker: str) -> int:
        """The local limit that a member announces to hold."""
        return self.in_force.get(broker, self.reserve)

    def held(self) -> int:
        """What all members together announce to hold."""
        return sum(self.in_force.values()) + self.idle * self.reserve

    def binding_of(self, broker: str, local: int) -> Binding:
        """What keeps a broker's local limit where it is."""
        if local < self.target_of(broker):
            return Binding.GATE
        claim = self.claims.get(broker)
        if claim is None:
            return Binding.RESERVE
        if self.water_level is None or (claim.wants is not None and claim.wants <= local):
            return Binding.DEMAND
        return Binding.LEVEL


def reserve_of(limit: int, members: int, settings: CoreSettings) -> int:
    """One member's arrival reserve, per second; 0 for a limit too small to have parts."""
    return limit * settings.arrival_reserve_permille // 1000 // max(1, members)


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
    limit = group.limits.of(dimension)
    if limit is None:
        raise ValueError(f"{group.name} does not limit {dimension.value}")
    reserve = reserve_of(limit, len(members), settings)
    rows = usage.rows(group.name, dimension.monitoring_class)
    weight_of = WEIGHTS[group.weights]
    claims = {
        name: _claim(row, dimension, reserve, weight_of(row.usage)) for name, row in rows.items()
    }
    in_force = {name: _in_force(row, dimension, limit) for name, row in rows.items()}
    idle = len(members) - len(claims)
    if not claims:
        return Split(limit, reserve, idle, claims, {}, in_force, water_level=None)
    answer = ALL_LAWS[group.law](limit - idle * reserve, claims)
    return Split(limit, reserve, idle, claims, answer.targets, in_force, answer.water_level)


def _claim(row: UsageRow, dimension: Dimension, reserve: int, weight: int) -> Claim:
    demand = row.usage.demand_of(dimension.unit)
    wants = None if demand is None else max(reserve, demand)
    return Claim(wants, weight, used=row.rate_of(dimension))


def _in_force(row: UsageRow, dimension: Dimension, limit: int) -> int:
    announced = row.usage.limit_of(dimension.unit)
    # A broker that does not know of this limit yet may let anything through: nobody raises meanwhile.
    return limit if announced is None else announced
