"""Max-min for messages and bytes at once: one water level over the dominant unit.

Every message takes from both limits, so two splits that know nothing of each other hand out what cannot
be used: a broker of small messages gets bytes that it has no messages for, and as each split follows
what the other one lets through, their answers chase each other (of three brokers with messages of
100 B, 1 kB and 20 kB, limits go on moving at constant demand; ``tests/core/test_joint.py`` has the
figures).

So both limits are split in one. A participant's *share* is the part that it holds of the limit of its
*dominant* unit, the one of which it holds the larger part. Shares are raised together, by weight: who
wants less than the level gets all it wants of both units, everybody else is cut at the same share and
gets both units in the proportion in which it uses them. The water stops when a unit is used up: that
unit *binds*, since nobody can send a message without it. What is then left of the other one is headroom,
shared by weight, so that messages of another size are not cut before the next round.

That is dominant resource fairness (Ghodsi et al., NSDI 2011): nobody prefers another one's part to its
own, nobody is worse off than with its weight's part of both limits, and nobody can get more without
taking from somebody whose share is no larger. It is max-min itself where one unit is never scarce. Its
price is theirs, too: to raise one limit alone may lower somebody, who shares the other one with those
that the new room lets grow. No split can avoid that and keep the rest.

*Integers.* Proportions are fractions of 2**64, levels are compared by products of whole numbers. Every
part is within one unit of the exact one, and both limits are handed out to the last unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator.core.laws.claims import RATIO_BITS, Allocation, apportion
from coordinator.core.model import Unit

Pair = tuple[int, int]
"""A number of messages and one of bytes."""

_UNITS: Final = (Unit.MESSAGES, Unit.BYTES)
_ONE: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class JointClaim:
    """What one participant asks for of both units, per second.

    Args:
        wants: its demand; if that is hidden, the proportion in which it uses the two units, (0, 0) if
            nothing is known of it: then it counts as one that uses both limits alike.
        hidden: it wants more than anybody knows, of one unit or of both.
        weight: how many times it counts, >= 1.
    """

    wants: Pair
    hidden: bool = False
    weight: int = 1


@dataclass(frozen=True, slots=True)
class JointAllocation:
    """The targets of both units, and which of them is used up by those who want more.

    Only the unit that binds has a water level; with neither everybody gets what it wants.
    """

    messages: Allocation
    bytes: Allocation
    binds: Unit | None

    def of(self, unit: Unit) -> Allocation:
        """One unit's part of the answer."""
        return self.messages if unit is Unit.MESSAGES else self.bytes


class _Part(NamedTuple):
    """A participant's proportion and the size of its demand.

    ``uses`` is weighted, in parts of _ONE, which its dominant unit is; ``share`` its demand's part of
    the dominant limit, times both limits.
    """

    uses: Pair
    share: int


def joint_max_min(limits: Pair, claims: Mapping[str, JointClaim]) -> JointAllocation:
    """Split both limits among at least one participant; each is handed out to the last unit.

    1,000 messages and 5 MB per second, of which A sends 100 B and B 10 kB each as fast as it may: the
    share is two thirds, so A gets 667 messages and B 333, which are 3.3 MB.
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
    # The unit of which what is left lasts for the smaller share.
    lasts = (left[0] * limits[1] * opened[1], left[1] * limits[0] * opened[0])
    binding = int(not opened[0] or lasts[0] > lasts[1])
    other = 1 - binding
    # What the cut ones use of the other unit, and what is left of it, over one denominator.
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
    """Satisfy whoever wants the smallest shares; what is left of the limits and who uses it."""
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
    """What was granted, and what is left of the limit by these shares."""
    return {name: granted.get(name, 0) + part for name, part in apportion(left, shares).items()}


def _nothing_passes(
    limits: Pair, claims: Mapping[str, JointClaim], weights: Mapping[str, int]
) -> JointAllocation:
    """A limit of 0 stops both units, however much there is of the other one."""
    wanted = any(claim.hidden or any(claim.wants) for claim in claims.values())
    binds = _UNITS[int(limits[0] > 0)] if wanted else None
    messages, bytes_ = (
        Allocation(apportion(limit, weights), 0 if unit is binds else None)
        for unit, limit in zip(_UNITS, limits, strict=True)
    )
    return JointAllocation(messages, bytes_, binds)
