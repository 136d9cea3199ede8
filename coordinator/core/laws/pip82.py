"""The three laws that PIP-82 describes by example.

They know what every broker *used*, not what it wants. The text of the proposal says what happens with a
quota of 100:

* 10, 50 and 30 are used: "each adding the remaining 10 units": 20, 60, 40 (``equal_residual``);
* or "split up the 10 units proportionally": 11.11, 55.56, 33.33 (``proportional``);
* 80 and 20 are used: the smaller one goes "half-way to the next broker", 50, and as its use grows to 30
  the dominant one lowers its limit to 70. "Generalizing it for the N brokers case, the broker with the
  lowest quota will steal part of the quota of the most dominant broker", the second lowest of the second
  most dominant, and so on (``steal``).

"The opposite would happen (each broker would reduce its usage by the corresponding fractional amount) if
the recent usage was over the quota": then all three take the use down to the limit.

Prices: equal-residual hands out the same room N times; proportional keeps any split for ever once all
are throttled; steal is fair in the end but needs several rounds, and hands out up to half of the limit
twice meanwhile. The higher one gives way only to what the lower one has really taken, so under a policy
that lets nobody raise before another one has lowered (``balanced``) nothing is stolen: use ``eager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from coordinator.core.laws.claims import Allocation, Claim, allocation, apportion, known_uses


def equal_residual(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Own use plus all that the cluster has left; over the limit, everybody's use times C/U."""
    uses = known_uses(claims)
    residual = limit - sum(uses.values())
    if residual < 0:
        return allocation(apportion(limit, uses), claims)
    return allocation({name: use + residual for name, use in uses.items()}, claims)


def proportional(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Use and residual in proportion to use, which is the limit in proportion to use."""
    return allocation(apportion(limit, known_uses(claims)), claims)


def steal(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """The lowest user takes half of what it and the highest have together, and so on inwards.

    Each pair shares the part of the limit that its use is of all use. The lower one (by use per weight)
    may go to its weight's part of that at once. The higher one keeps what its own use is of it, and no
    more than the lower one's use leaves over: it gives way as fast as the lower one really takes. With
    an odd number of brokers, the middle one keeps its proportional part.
    """
    uses = known_uses(claims)
    order = sorted(claims, key=lambda name: (Fraction(uses[name], claims[name].weight), name))
    half = len(order) // 2
    pairs = list(zip(order[:half], reversed(order), strict=False))
    alone = order[half : len(order) - half]
    parts = {low: uses[low] + uses[high] for low, high in pairs}
    shares = apportion(limit, parts | {name: uses[name] for name in alone})
    targets = {name: shares[name] for name in alone}
    for low, high in pairs:
        fair = apportion(shares[low], {name: claims[name].weight for name in (low, high)})
        held = apportion(shares[low], {name: uses[name] for name in (low, high)})
        targets[low] = fair[low]
        targets[high] = max(fair[high], min(held[high], shares[low] - uses[low]))
    return allocation(targets, claims)
