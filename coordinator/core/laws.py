"""Allocation laws: how the limit of a group is split among the brokers that take part.

A law is a pure function from a limit and each participant's claim to each participant's target. Every
sidecar computes it from its own view; with equal views the results are equal to the last unit, so no
leader is needed.

**max-min** (weighted) is water-filling: pour the limit into vessels as wide as the weights and as high
as the demands. Whoever wants less than the level gets all it wants, everybody else is cut at the same
level per weight. It is the only split in which nobody can get more without taking from somebody who
has no more than he (Bertsekas and Gallager, Data Networks, 6.5.2). A throttled broker's demand is
hidden, so it counts as unbounded. When the limit is more than everybody wants, what is left over is
headroom, shared by weight, so that a rising demand is not cut before the next round.

Invariants, for every law: the targets add up to the limit exactly; each target is >= 0; the result
does not depend on the order of the claims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Claim:
    """What one participant wants, per second; ``wants`` None is unbounded, ``weight`` is >= 1."""

    wants: int | None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Allocation:
    """Targets per broker, per second, and the level at which the greedy ones were cut.

    ``water_level`` is the rate per unit of weight; None when everybody gets what it wants.
    """

    targets: Mapping[str, int]
    water_level: int | None


Law = Callable[[int, Mapping[str, Claim]], Allocation]


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Split a whole number by weight, exactly: largest remainder, ties by name.

    Weights are >= 0; with all of them 0 nobody gets anything.
    """
    whole = sum(weights.values())
    if whole == 0:
        return dict.fromkeys(weights, 0)
    shares = {name: total * weight // whole for name, weight in weights.items()}
    left = total - sum(shares.values())
    by_remainder = sorted(weights, key=lambda name: (-(total * weights[name] % whole), name))
    for name in by_remainder[:left]:
        shares[name] += 1
    return shares


def max_min(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Exact weighted max-min fair shares by water-filling, on integers."""
    targets: dict[str, int] = {}
    remaining = limit
    weight_left = sum(claim.weight for claim in claims.values())
    bounded = [
        (name, claim.wants, claim.weight)
        for name, claim in claims.items()
        if claim.wants is not None
    ]
    # Whoever wants least per weight is filled first; fractions, so that large rates stay exact.
    bounded.sort(key=lambda row: (Fraction(row[1], row[2]), row[0]))
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


LAWS: Mapping[str, Law] = {"max-min": max_min}
"""Every law by the name that a group's ``law`` setting uses."""
