"""Max-min fairness by water-filling, and the equal split that it improves on.

Pour the limit into vessels as wide as the weights and as high as the demands. Whoever wants less than
the level gets all it wants, everybody else is cut at the same level per weight. It is the only split
in which nobody can get more without taking from somebody who has no more than he (Bertsekas and
Gallager, Data Networks, 6.5.2). A throttled broker's demand is hidden, so it counts as unbounded. When
the limit is more than everybody wants, what is left over is headroom, shared by weight, so that a
rising demand is not cut before the next round.

``coordinator.core.fill`` computes the same for many groups at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.laws.claims import RATIO_BITS, Allocation, Claim, allocation, apportion


def max_min(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Exact weighted max-min fair shares by water-filling, on integers.

    50, 150, 400, 900 and 2,000 of 1,000 are cut at 266: 50, 150, 267, 267, 266.
    """
    targets: dict[str, int] = {}
    remaining = limit
    weight_left = sum(claim.weight for claim in claims.values())
    bounded = [
        (name, claim.wants, claim.weight)
        for name, claim in claims.items()
        if claim.wants is not None
    ]
    # Whoever wants least per weight is filled first.
    bounded.sort(key=lambda row: ((row[1] << RATIO_BITS) // row[2], row[0]))
    for name, wants, weight in bounded:
        if wants * weight_left > remaining * weight:
            break
        targets[name] = wants
        remaining -= wants
        weight_left -= weight
    cut = {name: claim.weight for name, claim in claims.items() if name not in targets}
    if cut:
        targets.update(apportion(remaining, cut))
        return Allocation(targets, water_level=remaining // weight_left)
    headroom = apportion(remaining, {name: claim.weight for name, claim in claims.items()})
    return Allocation({name: targets[name] + headroom[name] for name in claims}, water_level=None)


def static(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """C/N by weight, whatever anybody wants: what one configures without any coordination.

    Of 100, one of two brokers gets 50 although the other one is idle.
    """
    targets = apportion(limit, {name: claim.weight for name, claim in claims.items()})
    return allocation(targets, claims)
