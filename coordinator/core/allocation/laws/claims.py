"""The input and the output of an allocation law, and the exact split of a whole number by weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

RATIO_BITS: Final = 128
"""Bits by which a ratio of a rate to a weight is shifted so that ratios sort as whole numbers: exact
for weights below 2**64, and several times as fast as fractions."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one participant, per second.

    Args:
        wants: its demand; None is unbounded (the demand of a throttled broker is hidden).
        weight: how many times it counts, >= 1.
        used: the rate that it admitted lately. Some laws use only this, as brokers report no demand
            to them.
    """

    wants: int | None
    weight: int = 1
    used: int = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Targets per broker, per second, and the level at which brokers were limited.

    ``water_level`` is the highest rate per unit of weight of a broker that gets less than its
    demand; None if every broker gets all of its demand.
    """

    targets: Mapping[str, int]
    water_level: int | None


Law = Callable[[int, Mapping[str, Claim]], Allocation]
"""A function from a limit (>= 0) and at least one claim to the targets."""


def apportion(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Split a whole number by weight, exactly: largest remainder, ties by name.

    Weights are >= 0; if all of them are 0, every part is 0.
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


def allocation(targets: Mapping[str, int], claims: Mapping[str, Claim]) -> Allocation:
    """Return the targets of a law that computes no level, with the level that follows from them."""
    cut = [
        targets[name] // claim.weight
        for name, claim in claims.items()
        if claim.wants is None or claim.wants > targets[name]
    ]
    return Allocation(targets, water_level=max(cut, default=None))


def known_uses(claims: Mapping[str, Claim]) -> dict[str, int]:
    """Return the admitted rate of each broker, at least one unit per unit of weight.

    Without this minimum, a law that splits by use alone would give a new broker 0 for ever; without
    any traffic the minimum makes such a law split by weight.
    """
    return {name: max(claim.used, claim.weight) for name, claim in claims.items()}
