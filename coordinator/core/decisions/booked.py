"""A limit under ``strict``: exactly what the books say, after the surplus over the target is given."""

from __future__ import annotations

from dataclasses import replace

from coordinator.core.allocation.splitting import NO_FRACTION, WHOLE_FROM, Binding
from coordinator.core.decisions.decision import Decision
from coordinator.core.decisions.facts import DecisionFacts, LimitInForce
from coordinator.core.escrow.books import fraction_of, limit_of
from coordinator.core.escrow.quota import Quotas
from coordinator.core.lifecycle import Lifecycle


def decide_booked(limit: LimitInForce, quotas: Quotas, facts: DecisionFacts) -> Decision:
    """Decide a limit by the books, and give away what others need more."""
    group, dimension, own, _ = limit
    exact = group.exact_limits.of(dimension) or 0
    quota = quotas.read(
        group.name,
        dimension,
        exact,
        own or 0,
        facts.members,
        facts.now_ns,
        lost=facts.is_lost,
    )
    if quota.cause is not None:
        return facts.decision(quota.rate, quota.cause)
    split = facts.splits.of(group, dimension)
    in_force = {name: limit_of(parts, exact) for name, parts in quota.holdings.items()}
    split = replace(split, in_force={**split.in_force, **in_force})
    broker = facts.settings.broker
    parts = quota.holdings[broker]
    if facts.lifecycle is Lifecycle.ACTIVE:
        targets = {name: split.exact_target_of(name) for name in quota.holdings}
        parts = quotas.give(group.name, dimension, exact, quota, targets)
    local = limit_of(parts, exact)
    is_small = exact < WHOLE_FROM * len(quota.holdings) or dimension in dict(group.fractions)
    fraction = fraction_of(parts, exact) if is_small else NO_FRACTION
    degraded = facts.lifecycle is Lifecycle.DEGRADED
    binding = Binding.DEGRADED if degraded else split.binding_of(broker, local)
    return facts.decision(local, binding, split, fraction=fraction)
