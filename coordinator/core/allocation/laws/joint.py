"""Max-min for messages and bytes together: one water level over the dominant unit.

Every message takes tokens from both limits. Two independent splits therefore hand out rates that brokers
cannot use: a broker of small messages gets bytes for which it has no messages. Each split also follows
what the other one admits, so the two results chase each other. With three brokers whose messages have
100 B, 1 kB and 20 kB, limits keep moving at constant demand (figures:
``tests/core/allocation/test_joint.py``).

This law splits both limits together. The *dominant* unit of a participant is the unit of which it holds
the larger part; its *share* is that part. The law raises all shares together, by weight. A participant
whose demand lies below the level gets all of it, in both units. All others are limited to the same share
and get both units in the proportion in which they use them. The level stops when a unit is used up: that
unit *binds*, since no message passes without it. The rest of the other unit is headroom, shared by
weight, so that messages of another size are not throttled before the next round.

This is dominant resource fairness (Ghodsi et al., NSDI 2011): no participant prefers the part of another
to its own, none gets less than with its weight's part of both limits, and none can get more unless
another one whose share is no larger gets less. Where one unit is never scarce, it equals max-min. It has
the known price: raising one limit alone may lower a participant, because others grow into the new room
and take more of the other unit. No split with the other properties avoids that.

*Integers.* Proportions are fractions of 2**64; levels are compared by products of whole numbers. Every
part is within one unit of the exact one, and both limits are handed out to the last unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator.core.allocation.laws.claims import RATIO_BITS, Allocation, apportion
from coordinator.core.model import Unit

Pair = tuple[int, int]
"""A number of messages and one of bytes."""

_UNITS: Final = (Unit.MESSAGES, Unit.BYTES)
_ONE: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class JointClaim:
    """The claim of one participant on both units, per second.

    Args:
        wants: its demand; if that is hidden, the proportion in which it uses the two units. (0, 0)
            means unknown: it then counts as using both limits alike.
        hidden: its demand for at least one of the units is unbounded.
        weight: how many times it counts, >= 1.
    """

    wants: Pair
    hidden: bool = False
    weight: int = 1


@dataclass(frozen=True, slots=True)
class JointAllocation:
    """The targets of both units, and the unit that binds.

    Only the unit that binds has a water level; if none binds, every participant gets all of its
    demand.
    """

    messages: Allocation
    bytes: Allocation
    binds: Unit | None

    def of(self, unit: Unit) -> Allocation:
        """Return the part of the answer that concerns one unit."""
        return self.messages if unit is Unit.MESSAGES else self.bytes


class _Part(NamedTuple):
    """The proportion and the size of one participant's demand.

    ``uses`` is weighted, in parts of _ONE, which is the use of its dominant unit; ``share`` is the
    part of the dominant limit that it demands, times both limits.
    """

    uses: Pair
    share: int


def joint_max_min(limits: Pair, claims: Mapping[str, JointClaim]) -> JointAllocation:
    """Split both limits among at least one participant; hand out each to the last unit.

    Of 1,000 messages and 5 MB per second, A sends messages of 100 B and B messages of 10 kB, both
    without a bound. The share is two thirds: A gets 667 messages and B 333, which are 3.3 MB.
    """
    weights = {name: claim.weight for name, claim in claims.items()}
    if not all(limits):
        return _nothing_passes(limits, claims, weights)
    parts = {name: _part(limits, claim) for name, claim in claims.items()}
    satisfied, left, opened = _fill(limits, claims, parts)
    cut = {name: part.uses for name, part in parts.items() if name not in satisfied}
    if not cut:
        messages, bytes_ = (
            _added({name: claims[name].wants[unit] for name in claims}, left[unit], weights)
            for unit in (0, 1)
        )
        return JointAllocation(Allocation(messages, None), Allocation(bytes_, None), None)
    # The unit whose rest lasts for the smaller share.
    lasts = (left[0] * limits[1] * opened[1], left[1] * limits[0] * opened[0])
    binding = int(not opened[0] or lasts[0] > lasts[1])
    other = 1 - binding
    # The use of the other unit by the limited ones, and its rest, over one denominator.
    used = left[binding] * limits[other]
    spare = left[other] * limits[binding] * opened[binding] - used * opened[other]
    whole = sum(weights.values())
    shares = {name: spare * weight for name, weight in weights.items()}
    for name, uses in cut.items():
        shares[name] += used * uses[other] * whole
    granted = [{name: claims[name].wants[unit] for name in satisfied} for unit in (0, 1)]
    bound = granted[binding] | apportion(
        left[binding], {n: uses[binding] for n, uses in cut.items()}
    )
    free = _added(granted[other], left[other], shares)
    answers = (
        Allocation(bound, left[binding] * _ONE // opened[binding]),
        Allocation(free, water_level=None),
    )
    return JointAllocation(answers[binding], answers[other], _UNITS[binding])


def _fill(
    limits: Pair, claims: Mapping[str, JointClaim], parts: Mapping[str, _Part]
) -> tuple[set[str], Pair, Pair]:
    """Satisfy those with the smallest shares; return them, the rest of the limits and the others' use."""
    bounded = sorted(
        (name for name, claim in claims.items() if not claim.hidden),
        key=lambda name: ((parts[name].share << RATIO_BITS) // claims[name].weight, name),
    )
    satisfied: set[str] = set()
    left = limits
    opened = (
        sum(part.uses[0] for part in parts.values()),
        sum(part.uses[1] for part in parts.values()),
    )
    for name in bounded:
        (uses, share), wants = parts[name], claims[name].wants
        one = claims[name].weight * _ONE
        if (
            share * opened[0] > left[0] * limits[1] * one
            or share * opened[1] > left[1] * limits[0] * one
        ):
            break
        satisfied.add(name)
        left = (left[0] - wants[0], left[1] - wants[1])
        opened = (opened[0] - uses[0], opened[1] - uses[1])
    return satisfied, left, opened


def _part(limits: Pair, claim: JointClaim) -> _Part:
    # Parts of the two limits, with a common denominator: the larger one is the dominant unit's.
    shares = (claim.wants[0] * limits[1], claim.wants[1] * limits[0])
    share = max(shares)
    one = claim.weight * _ONE
    if not share:
        return _Part((one, one), 0)
    return _Part((one * shares[0] // share, one * shares[1] // share), share)


def _added(granted: Mapping[str, int], left: int, shares: Mapping[str, int]) -> dict[str, int]:
    """Return the granted rates plus the rest of the limit, split by these shares."""
    return {name: granted.get(name, 0) + part for name, part in apportion(left, shares).items()}


def _nothing_passes(
    limits: Pair, claims: Mapping[str, JointClaim], weights: Mapping[str, int]
) -> JointAllocation:
    """Return the targets if one limit is 0: it stops both units, whatever the other limit is."""
    wanted = any(claim.hidden or any(claim.wants) for claim in claims.values())
    binds = _UNITS[int(limits[0] > 0)] if wanted else None
    messages, bytes_ = (
        Allocation(apportion(limit, weights), 0 if unit is binds else None)
        for unit, limit in zip(_UNITS, limits, strict=True)
    )
    return JointAllocation(messages, bytes_, binds)
