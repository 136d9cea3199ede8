"""A local limit with the reason for it.

Each decision is kept as a whole, so that the question "why is this limit what it is" needs no guess:
insight/model/explain.py puts the answer into words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from coordinator.core.allocation.splitting import NO_FRACTION, Binding, Split
from coordinator.core.model import Dimension, Rate, ResourceGroup


@dataclass(frozen=True, slots=True)
class Decision:
    """One local limit with its reason.

    Args:
        local_limit: per second; None is unlimited.
        binding: the cause of the limit.
        round: in which it was decided.
        decided_ns: when.
        split: the answer of the law; None where the law was not asked.
        part_of: while degraded, the least shared sum since the limit was a part of it; in a tree, the
            entitlement that is shared, since the sum follows the demand of others.
        fraction: what is enforced beside the limit, below 1 per second (allocation/splitting.py).
    """

    local_limit: int | None
    binding: Binding
    round: int
    decided_ns: int
    split: Split | None = None
    part_of: Rate | None = None
    fraction: Fraction = NO_FRACTION

    @property
    def exact_limit(self) -> Rate | None:
        """Return the local limit with its fraction."""
        return None if self.local_limit is None else self.local_limit + self.fraction

    @property
    def shared(self) -> Rate | None:
        """Return the sum of which the limit is a part, per second."""
        return self.split.exactly_shared if self.part_of is None and self.split else self.part_of


def within(decision: Decision, share: int | None) -> Decision:
    """Return a decision within the share of the quota of a strict root; None is no such root."""
    local = decision.local_limit
    if share is None or local is None or local <= share:
        return decision
    degraded = decision.binding is Binding.DEGRADED
    return replace(
        decision, local_limit=share, binding=Binding.DEGRADED if degraded else Binding.GATE
    )


def lasting(group: ResourceGroup, dimension: Dimension, split: Split) -> int | None:
    """Return the sum of which a leaf's limits are parts whatever others want; None outside trees."""
    if group.entitled is None:
        return None
    return max(0, (group.base_of(dimension) or 0) - split.idle * split.reserve)
