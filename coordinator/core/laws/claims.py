"""What a law is given and what it answers, and the one way to split a whole number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

RATIO_BITS: Final = 128
"""Ratios of a rate to a weight are sorted as whole numbers, shifted by so much: exact for weights below
2**64, and several times as fast as fractions."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one participant asks for, per second.

    Args:
        wants: its demand; None is unbounded (a throttled broker's demand is hidden).
        weight: how many parts it counts for, >= 1.
        used: what it admitted lately. Some laws go by this alone, as no demand is reported to them.
    """

    wants: int | None
    weight: int = 1
    used: int = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Targets per broker, per second, and the level at which the greedy ones were cut.

    ``water_level`` is the highest rate per unit of weight at which somebody gets less than it wants;
    None when everybody gets what it wants.
    """

    targets: Mapping[str, int]
    water_level: int | None


Law = Callable[[int, Mapping[str, Claim]], Allocation]
"""From a limit (>= 0) and at least one claim to the targets."""


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


def allocation(targets: Mapping[str, int], claims: Mapping[str, Claim]) -> Allocation:
    """The targets of a law that knows no level, with the level that they amount to."""
    cut = [
        targets[name] // claim.weight
        for name, claim in claims.items()
        if claim.wants is None or claim.wants > targets[name]
    ]
    return Allocation(targets, water_level=max(cut, default=None))


def known_uses(claims: Mapping[str, Claim]) -> dict[str, int]:
    """What everybody admitted, counted as one unit per unit of weight at the least.

    A law that splits by use alone would refuse a newcomer for ever; and without any traffic this makes
    it split by weight.
    """
    return {name: max(claim.used, claim.weight) for name, claim in claims.items()}
