"""The input of a decision: the limit that is asked for, and the facts of the pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from coordinator.core.allocation.splits import Splits
from coordinator.core.allocation.splitting import NO_FRACTION, Binding, Split, reserve_in
from coordinator.core.decisions.decision import Decision
from coordinator.core.degradation import Degradations
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import Dimension, LimitKey, Member, Rate, Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.tree_room import TreeRoom
from coordinator.core.usage.map import UsageMap


class LimitInForce(NamedTuple):
    """The limit that is to be decided anew.

    Args:
        group: its definition.
        dimension: of the limit.
        rate: in force at this broker, per second; None if nothing was decided yet, or it is unlimited.
        decision: from which it comes; None before the first.
    """

    group: ResourceGroup
    dimension: Dimension
    rate: int | None
    decision: Decision | None

    @property
    def key(self) -> LimitKey:
        """Return the name of the group and the dimension."""
        return self.group.name, self.dimension


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """The facts of one pass; they are the same for all its decisions.

    Args:
        settings: the core's.
        members: all live brokers.
        usage: their reports.
        splits: the answers of the law.
        degradations: the present ones.
        lifecycle: of this sidecar.
        round: the present one.
        now_ns: the time.
        in_force: this broker's limits, of which those already decided in this pass are new.
        tree_room: the room in the trees of groups; None if there are none.
        reborn: this is the first pass of a new incarnation.
        shares: the most that a leaf below a strict root may have of this broker's quota.
    """

    settings: CoreSettings
    members: Mapping[str, Member]
    usage: UsageMap
    splits: Splits
    degradations: Degradations
    lifecycle: Lifecycle
    round: int
    now_ns: int
    in_force: Mapping[str, Rates]
    tree_room: TreeRoom | None
    reborn: bool
    shares: dict[LimitKey, int] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """Return whether this broker is a member that moves its limits."""
        return self.lifecycle is Lifecycle.ACTIVE and self.settings.broker in self.members

    @property
    def is_lost(self) -> bool:
        """Return whether ZooKeeper ended this sidecar's session."""
        return Degradation.ZOOKEEPER_LOST in self.degradations

    def reserve(self, limit: LimitInForce) -> int:
        """Return one member's arrival reserve, per second."""
        return reserve_in(limit.group, limit.dimension, len(self.members), self.settings)

    def held(self, limit: LimitInForce) -> int:
        """Return the rate that this broker holds, per second: its reserve before the first decision.

        A new incarnation holds no more than that either, as the limits of the earlier one are unknown.
        """
        reserve = self.reserve(limit)
        if limit.rate is None:
            return reserve
        return min(limit.rate, reserve) if self.reborn else limit.rate

    def decision(
        self,
        local_limit: int | None,
        binding: Binding,
        split: Split | None = None,
        part_of: Rate | None = None,
        fraction: Fraction = NO_FRACTION,
    ) -> Decision:
        """Return a decision of this pass."""
        return Decision(local_limit, binding, self.round, self.now_ns, split, part_of, fraction)
