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

Prices: equal-residual hands out the same room N times. Proportional keeps any split for ever once all
brokers are throttled. Steal becomes fair, but needs several rounds and hands out up to half of the limit
twice meanwhile; the higher broker gives up only what the lower one has really taken. Under ``balanced``,
where no broker raises before another one has lowered, steal moves nothing: use it with ``eager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from coordinator.core.allocation.laws.claims import (
    Allocation,
    Claim,
    allocation,
    apportion,
    known_uses,
)


def equal_residual(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Return own use plus the whole residual of the cluster; over the limit, each use times C/U."""
    uses = known_uses(claims)
    residual = limit - sum(uses.values())
    if residual < 0:
        return allocation(apportion(limit, uses), claims)
    return allocation({name: use + residual for name, use in uses.items()}, claims)


def proportional(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Return use plus residual, both in proportion to use: the limit in proportion to use."""
    return allocation(apportion(limit, known_uses(claims)), claims)


def steal(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Let the lowest user take half of the sum of lowest and highest, then the next pair inwards.

    Each pair shares the part of the limit that equals its part of all use. The lower broker (by use
    per weight) may go to its weight's part of that at once. The higher one keeps the part of its
    own use, but no more than the lower one's use leaves: it gives way as fast as the lower one
    takes. With an odd number of brokers, the middle one keeps its proportional part.
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
