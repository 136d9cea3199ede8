"""The laws of other distributed rate limiters, for comparison.

Each is the published formula in its steady state, without leases or gossip: the simulator decides which
messages travel and when. The laws share out the true demand; where a demand is hidden they take the
limit, or the largest known demand if that is higher.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from coordinator.core.allocation.laws.claims import (
    Allocation,
    Claim,
    allocation,
    apportion,
    known_uses,
)

RATEGUARD_FLOOR_PERCENT: Final = 5
"""The beta of rateguard: the percentage of the limit that it splits equally."""


def grd(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Global random drop: every broker drops the same part of its demand, p = max(0, (D - C) / D).

    Raghavan et al., Cloud Control with Distributed Rate Limiting, SIGCOMM 2007; also Uber's GRL. Of
    demands of 1,200 and 300 with a limit of 1,000 both drop a third: 800 and 200. While nothing has
    to be dropped, no broker is limited: each of them could take the whole limit.
    """
    demands = _demands(limit, claims)
    if sum(demands.values()) <= limit:
        return allocation(dict.fromkeys(claims, limit), claims)
    return allocation(apportion(limit, demands), claims)


def rateguard(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Split a twentieth of the limit equally and the rest in proportion to demand.

    rateguard 0.1 (Rust, 2026): q = R * beta / N + R * (1 - beta) * d / D with beta = 0.05. 900 and
    100 of 1,000: 880 and 120.
    """
    demands = _demands(limit, claims)
    total = sum(demands.values()) or 1
    proportional = (100 - RATEGUARD_FLOOR_PERCENT) * len(claims)
    parts = {
        name: RATEGUARD_FLOOR_PERCENT * total + proportional * demand
        for name, demand in demands.items()
    }
    return allocation(apportion(limit, parts), claims)


def doorman_proportional(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Give each its demand up to the equal share, and split the rest in proportion to excess demand.

    PROPORTIONAL_SHARE of youtube/doorman, without subclients. 1,000, 50 and 10 of 120: 69.69,
    40.31, 10.
    """
    demands = _demands(limit, claims)
    if sum(demands.values()) <= limit:
        return allocation(demands, claims)
    # All differences to the equal share are multiplied by N, so that they stay whole numbers.
    excess = {name: demand * len(demands) - limit for name, demand in demands.items()}
    unclaimed = -sum(min(0, difference) for difference in excess.values())
    needed = sum(max(0, difference) for difference in excess.values())
    targets = {name: demand for name, demand in demands.items() if excess[name] <= 0}
    greedy = {
        name: limit * needed + difference * unclaimed
        for name, difference in excess.items()
        if difference > 0
    }
    return allocation(targets | apportion(limit - sum(targets.values()), greedy), claims)


def doorman_fair(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Give the equal share, then split the rest equally in two rounds.

    FAIR_SHARE of youtube/doorman, without subclients, rounded down. 1,000, 50 and 10 of 120: 60,
    50, 10. Two rounds are not always enough: demands of many sizes leave something over.
    """
    demands = _demands(limit, claims)
    contending = list(demands.values())
    level = Fraction(limit, len(contending))
    for _ in range(2):
        left = sum((level - demand for demand in contending if demand < level), Fraction(0))
        contending = [demand for demand in contending if demand > level]
        if contending:
            level += left / len(contending)
    return allocation({name: min(demand, int(level)) for name, demand in demands.items()}, claims)


def fps(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Flow-proportional share: split the limit in proportion to the flows that each limiter could serve.

    Raghavan et al. 2007, with ``weight`` as the number of flows. A limiter is *saturated* if its
    demand exceeds the rate that it admits, or if it admits its flows' part of the limit. A
    saturated limiter counts its flows; any other counts the number of flows at which its limit
    equals the rate that it admits. If none is saturated, the limit is split by admitted rate. 3 and
    7 saturated flows with a limit of 10: 3 and 7.
    """
    flows = sum(claim.weight for claim in claims.values())
    saturated = {
        name: claim.weight
        for name, claim in claims.items()
        if claim.wants is None
        or claim.wants > claim.used
        or claim.used * flows >= limit * claim.weight
    }
    if not saturated:
        return allocation(apportion(limit, known_uses(claims)), claims)
    targets = {name: claim.used for name, claim in claims.items() if name not in saturated}
    return allocation(targets | apportion(limit - sum(targets.values()), saturated), claims)


def _demands(limit: int, claims: Mapping[str, Claim]) -> dict[str, int]:
    known = [claim.wants for claim in claims.values() if claim.wants is not None]
    hidden = max([limit, *known])
    return {n: hidden if claim.wants is None else claim.wants for n, claim in claims.items()}
