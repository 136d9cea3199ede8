"""Max-min fairness by water-filling, and the equal split that it improves on.

Pour the limit into vessels as wide as the weights and as high as the demands. A broker whose demand lies
below the level gets all of it; all others are limited at the same level per weight. It is the only split
in which no broker can get more unless another one, which has no more than it, gets less (Bertsekas and
Gallager, Data Networks, 6.5.2). The demand of a throttled broker is hidden, so it counts as unbounded. If
the limit exceeds the sum of all demands, the rest is headroom, shared by weight, so that a rising demand
is not throttled before the next round.

``coordinator.core.allocation.fill`` computes the same for many groups at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from coordinator.core.allocation.laws.claims import (
    RATIO_BITS,
    Allocation,
    Claim,
    allocation,
    apportion,
)
from coordinator.core.model import Rate

_R = TypeVar("_R", int, Fraction)


def max_min(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Return exact weighted max-min fair shares by water-filling, on integers.

    50, 150, 400, 900 and 2,000 of 1,000 are limited at 266: 50, 150, 267, 267, 266.
    """
    targets, remaining, weight_left = _filled(limit, claims)
    cut = {name: claim.weight for name, claim in claims.items() if name not in targets}
    if cut:
        targets.update(apportion(remaining, cut))
        return Allocation(targets, water_level=remaining // weight_left)
    headroom = apportion(remaining, {name: claim.weight for name, claim in claims.items()})
    return Allocation({name: targets[name] + headroom[name] for name in claims}, water_level=None)


def exact_parts(limit: Rate, claims: Mapping[str, Claim]) -> dict[str, Rate]:
    """Return the same parts unrounded; of 2, three that want more have 2/3 each."""
    targets, remaining, _ = _filled(Fraction(limit), claims)
    sharing = claims.keys() - targets.keys() or claims.keys()
    weight = sum(claims[name].weight for name in sharing)
    shared = {name: remaining * claims[name].weight / weight for name in sharing}
    return {name: targets.get(name, 0) + shared.get(name, 0) for name in claims}


def _filled(limit: _R, claims: Mapping[str, Claim]) -> tuple[dict[str, int], _R, int]:
    """Return the demands below the level, and what is left with the weight of all others."""
    targets: dict[str, int] = {}
    remaining = limit
    weight_left = sum(claim.weight for claim in claims.values())
    bounded = [
        (name, claim.wants, claim.weight)
        for name, claim in claims.items()
        if claim.wants is not None
    ]
    # Fill the smallest demand per weight first.
    bounded.sort(key=lambda row: ((row[1] << RATIO_BITS) // row[2], row[0]))
    for name, wants, weight in bounded:
        if wants * weight_left > remaining * weight:
            break
        targets[name] = wants
        remaining -= wants
        weight_left -= weight
    return targets, remaining, weight_left


def static(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Return C/N by weight, whatever the demands: the limit that one configures without coordination.

    Of 100, one of two brokers gets 50 although the other one is idle.
    """
    targets = apportion(limit, {name: claim.weight for name, claim in claims.items()})
    return allocation(targets, claims)
