"""A limit while degraded: the fraction of the shared sum that it was, and less if that sum shrinks.

The own demand does not lower it meanwhile: it may have fallen for a moment only, and nothing could be
raised again.
"""

from __future__ import annotations

from coordinator.core.allocation.splitting import NO_FRACTION, Binding
from coordinator.core.decisions.decision import Decision, lasting
from coordinator.core.decisions.facts import DecisionFacts, LimitInForce
from coordinator.core.degradation import degraded_limit
from coordinator.core.model import ResourceGroup


def decide_degraded(limit: LimitInForce, most: int, facts: DecisionFacts) -> Decision:
    """Decide a limit while degraded.

    Args:
        limit: under ``balanced`` or ``eager``.
        most: the highest that it can be, per second.
        facts: of the pass.
    """
    group, dimension, _, before = limit
    split = facts.splits.of(group, dimension)
    held = facts.held(limit)
    known = None if before is None else before.shared
    lasts = lasting(group, dimension, split)
    shared = split.exactly_shared if lasts is None else lasts
    part_of = shared if known is None else min(known, shared)
    if known:
        held = int(held * part_of // known)
    if lasts is None:
        whole = split.limit
        held = min(whole, held)
    else:
        whole = group.base_of(dimension) or 0
    local = min(_degraded(held, whole, group, facts), most)
    fraction = NO_FRACTION if before is None else before.fraction
    if known:
        fraction = fraction * part_of / known
    if fraction and not _lets_pass(group, facts):
        fraction = NO_FRACTION
    return facts.decision(local, Binding.DEGRADED, split, part_of, fraction)


def _degraded(held: int, whole: int, group: ResourceGroup, facts: DecisionFacts) -> int:
    return degraded_limit(
        held,
        whole,
        len(facts.members),
        facts.degradations,
        group.partition_policy,
        facts.settings.hold_ns,
        facts.now_ns,
    )


def _lets_pass(group: ResourceGroup, facts: DecisionFacts) -> bool:
    """Return whether anything of a limit passes while degraded."""
    return bool(_degraded(1, len(facts.members), group, facts))
