"""The law of a tree of groups: guarantees first, the rest by weight, the same on every sidecar.

A group may have a ``parent``. Then it shares the parent's limit with its siblings, within its own limit
(its *cap*), by its ``guarantee`` and its ``weight``. At each inner group, from the root down, with T
the part that the inner group has, C at the root:

1. *Guarantees.* Every child gets the smaller of its demand and its guarantee.
2. *Demand.* What is left of T is filled by weight, max-min (laws/water_filling.py): from nothing up to
   what each child wants beyond step 1. Who wants less than the level gets all of it.
3. *Headroom.* What is left then is filled by weight in the same way up to the caps, so that a rising
   demand is not cut before the next report.

The *demand of an inner group* is the sum of what its children want, at most its cap; a child whose
brokers are throttled wants as much as it may have at most. An inner group is guaranteed at least what
its children are guaranteed together. Each leaf's part is split among brokers like the limit of a group
without a parent (splitting.py), and takes the place of that limit.

*What holds*, by induction from the root, for guarantees that add up to at most the limit at every inner
group:

* the parts of the children add up to T, or to their caps if these are less;
* no part is above its cap, and none below the smaller of demand and guarantee: *no group is worse
  off than with its guarantee alone*, whatever its siblings want. For an inner group wants at least what
  its children want within their guarantees, and is guaranteed that;
* a guarantee that is not used is in step 2 and 3 of the same round: lent by weight, and claimed back by
  demand alone, since step 1 comes first;
* scaling all rates by a number scales the parts, up to one unit for each level of the tree; renaming
  groups changes no part by more than that.

*Whole numbers.* Each step rounds by largest remainder, ties by name, so that sums are exact.

*Messages and bytes together*, where both are shared at an inner group. Every message takes from both,
so two fills that do not know of each other hand out bytes to groups that have no messages for them
(laws/joint.py). Step 1 is taken per unit. In step 2 each child moves on a straight line from what it
has to what it wants, in both units at once; the *share* of a child is the larger of its two parts of
what is left, and shares rise together, by weight. When a unit is used up, those that need more of it
stop, and the others go on. Step 3 is taken per unit again. Of a throttled child only the proportion of
its units is known, its mean message size; it wants as much in this proportion as its caps allow. A
guarantee in one unit alone is given, too, and may lie idle in that unit for want of the other:
guarantee both.

Of one level, every part of the joint law is less than two units away from the exact one; of a single
unit it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from coordinator.core.allocation.laws import Claim, apportion, max_min
from coordinator.core.allocation.laws.claims import RATIO_BITS

Pair = tuple[int, int]
"""A number of messages and one of bytes."""

Limits = tuple[int | None, int | None]
"""The same, where None is not limited."""

MAX_DEPTH: Final = 8
"""The largest number of groups on the way from a root to a leaf, both counted."""

_BOTH: Final = (0, 1)
_ONE: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A group of a tree, of one class of traffic.

    Args:
        name: of the group.
        limits: its own limits, per second: the caps of its parts.
        guarantees: what it gets before others get more than their guarantees, per second.
        weight: how many times it counts in what is left, >= 1.
        children: sorted by name; empty for a leaf.
    """

    name: str
    limits: Limits
    guarantees: Pair = (0, 0)
    weight: int = 1
    children: tuple[GroupNode, ...] = ()

    def leaves(self) -> Iterator[GroupNode]:
        """Yield the leaves below this group, or itself."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


class Want(NamedTuple):
    """The demand of the brokers of a leaf together, per second.

    Args:
        demand: of messages and bytes; None is unbounded.
        message_size: the mean size of a message in bytes; 0 is unknown.
        held: what its brokers hold whatever they want; demand is no less.
    """

    demand: Limits
    message_size: int = 0
    held: Pair = (0, 0)


@dataclass(slots=True)
class _Branch:
    """A node with what follows from the wants of its leaves."""

    node: GroupNode
    caps: Limits
    wants: Pair
    #: The part of each unit that comes first: the guarantee, or what is held anyway.
    first: Pair
    children: list[_Branch] = field(default_factory=list)

    def least(self, unit: int) -> int:
        """Return what it gets before others get more than their guarantees."""
        return min(self.wants[unit], self.first[unit])

    def cap(self, unit: int) -> int:
        """Return the most that it may have of a unit that is limited."""
        return self.caps[unit] or 0


def share_tree(root: GroupNode, wants: Mapping[str, Want]) -> dict[str, Limits]:
    """Return the part of every group of a tree in both units; None where nothing limits it.

    Args:
        root: the root, with its limits.
        wants: of each leaf, by name; a leaf that is not named wants nothing.
    """
    parts: dict[str, Limits] = {}
    _hand_down(_look_up(root, (None, None), wants), root.limits, parts)
    return parts


def least_limit(one: int | None, other: int | None) -> int | None:
    """Return the lower of two limits, where None is not limited."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _look_up(node: GroupNode, above: Limits, wants: Mapping[str, Want]) -> _Branch:
    """Add the wants up, from the leaves to this group."""
    caps = (least_limit(above[0], node.limits[0]), least_limit(above[1], node.limits[1]))
    if not node.children:
        want = wants.get(node.name, Want((0, 0)))
        first = (max(node.guarantees[0], want.held[0]), max(node.guarantees[1], want.held[1]))
        branch = _Branch(node, caps, (0, 0), first)
        branch.wants = _within(_wanted(want, caps), caps, first)
        return branch
    children = [_look_up(child, caps, wants) for child in node.children]
    first, total, least = (
        _added(each.first for each in children),
        _added(each.wants for each in children),
        _added((each.least(0), each.least(1)) for each in children),
    )
    first = (max(first[0], node.guarantees[0]), max(first[1], node.guarantees[1]))
    return _Branch(node, caps, _within(total, caps, least), first, children)


def _added(pairs: Iterator[Pair]) -> Pair:
    messages = bytes_ = 0
    for pair in pairs:
        messages += pair[0]
        bytes_ += pair[1]
    return messages, bytes_


def _wanted(want: Want, caps: Limits) -> Pair:
    """Return the demand of a leaf; instead of an unbounded one, as much as its caps allow."""
    demand = (_at_least(want.demand[0], want.held[0]), _at_least(want.demand[1], want.held[1]))
    if caps[0] is None or caps[1] is None or None not in demand:
        return _known(demand[0], caps[0]), _known(demand[1], caps[1])
    if not want.message_size:
        return caps[0], caps[1]
    messages = min(caps[0], -(-caps[1] // want.message_size))
    return messages, min(caps[1], messages * want.message_size)


def _at_least(demand: int | None, held: int) -> int | None:
    return None if demand is None else max(demand, held)


def _known(demand: int | None, cap: int | None) -> int:
    if demand is None:
        return 0 if cap is None else cap
    return demand


def _within(wants: Pair, caps: Limits, least: Pair) -> Pair:
    """Scale a demand down to the caps, in proportion, but not below the smaller of it and ``least``."""
    part, whole = 1, 1
    for unit in _BOTH:
        cap = caps[unit]
        if cap is not None and cap * whole < wants[unit] * part:
            part, whole = cap, wants[unit]
    scaled = [want * part // whole for want in wants]
    for unit in _BOTH:
        cap = caps[unit]
        first = min(wants[unit], least[unit])
        scaled[unit] = max(scaled[unit], first if cap is None else min(first, cap))
    return scaled[0], scaled[1]


def _hand_down(branch: _Branch, part: Limits, parts: dict[str, Limits]) -> None:
    """Note the part of a group and share it among its children."""
    parts[branch.node.name] = part
    children = branch.children
    if not children:
        return
    messages, bytes_ = part
    if messages is None or bytes_ is None:
        found = [_share(part[unit], unit, children) for unit in _BOTH]
    else:
        found = _share_jointly((messages, bytes_), children)
    for child in children:
        name, limits = child.node.name, child.node.limits
        # Where nothing above limits a unit, the child is a root.
        below = [limits[unit] if part[unit] is None else found[unit][name] for unit in _BOTH]
        _hand_down(child, (below[0], below[1]), parts)


def _share(total: int | None, unit: int, children: list[_Branch]) -> dict[str, int]:
    """Share one unit among children; nothing where it is not limited."""
    if total is None:
        return {}
    got = {child.node.name: 0 for child in children}
    total = _fill(total, children, got, lambda child: child.least(unit))
    total = _fill(total, children, got, lambda child: child.wants[unit])
    _fill(total, children, got, lambda child: child.cap(unit))
    return got


def _share_jointly(total: Pair, children: list[_Branch]) -> list[dict[str, int]]:
    """Share both units among children."""
    left = list(total)
    got = [dict.fromkeys((child.node.name for child in children), 0) for _ in _BOTH]
    for unit in _BOTH:
        left[unit] = _fill(left[unit], children, got[unit], partial(_Branch.least, unit=unit))
    _fill_jointly(left, children, got)
    for unit in _BOTH:
        # What could not be used for want of the other unit is headroom, like the rest.
        _fill(left[unit], children, got[unit], partial(_Branch.cap, unit=unit))
    return got


def _fill(
    total: int,
    children: list[_Branch],
    got: dict[str, int],
    up_to: Callable[[_Branch], int],
) -> int:
    """Fill the children in one unit by weight, up to a rate each; return what is left."""
    needs = {child.node.name: max(0, up_to(child) - got[child.node.name]) for child in children}
    needed = sum(needs.values())
    if needed > total:
        claims = {
            child.node.name: Claim(needs[child.node.name], child.node.weight)
            for child in children
            if needs[child.node.name]
        }
        needs, needed = dict(max_min(total, claims).targets), total
    for name, part in needs.items():
        got[name] += part
    return total - needed


def _fill_jointly(left: list[int], children: list[_Branch], got: list[dict[str, int]]) -> None:
    """Fill the children of both units together, up to what they want; lower what is left."""
    weights = {child.node.name: child.node.weight for child in children}
    needs: dict[str, Pair] = {}
    for child in children:
        name = child.node.name
        needs[name] = (
            max(0, child.wants[0] - got[0][name]),
            max(0, child.wants[1] - got[1][name]),
        )
    while needs := {name: need for name, need in needs.items() if _may_go_on(need, left)}:
        _raise_level(left, needs, weights, got)


def _may_go_on(need: Pair, left: list[int]) -> bool:
    """Return whether a child needs anything, and nothing that is used up."""
    return any(need) and all(left[unit] or not need[unit] for unit in _BOTH)


def _raise_level(
    left: list[int],
    needs: dict[str, Pair],
    weights: Mapping[str, int],
    got: list[dict[str, int]],
) -> None:
    """Raise the level until a unit is used up or all have what they want.

    Drops those that have what they want and those that need more of the unit that is used up.
    """
    # Shares are parts of what is left, over one denominator.
    scale = (left[1] or 1, left[0] or 1)
    shares = {name: max(need[0] * scale[0], need[1] * scale[1]) for name, need in needs.items()}
    # The use per level, in parts of _ONE; and of all that are open.
    uses = {
        name: (
            weights[name] * need[0] * scale[0] * _ONE // shares[name],
            weights[name] * need[1] * scale[1] * _ONE // shares[name],
        )
        for name, need in needs.items()
    }
    opened = [sum(each[unit] for each in uses.values()) for unit in _BOTH]

    def rest(unit: int) -> int:
        return left[unit] * scale[unit]

    for name in sorted(
        needs, key=lambda name: ((shares[name] << RATIO_BITS) // weights[name], name)
    ):
        one = weights[name] * _ONE
        if any(shares[name] * opened[unit] > rest(unit) * one for unit in _BOTH):
            break
        need = needs.pop(name)
        for unit in _BOTH:
            got[unit][name] += need[unit]
            left[unit] -= need[unit]
            opened[unit] -= uses[name][unit]
    if not needs:
        return
    # The unit whose rest lasts for the lower level is used up.
    first = opened[1] == 0 or (opened[0] > 0 and rest(0) * opened[1] <= rest(1) * opened[0])
    binding, other = (0, 1) if first else (1, 0)
    level = rest(binding)
    bound = apportion(
        left[binding], {name: use[binding] for name, use in uses.items() if name in needs}
    )
    freed = _rounded(
        {name: level * use[other] for name, use in uses.items() if name in needs},
        opened[binding] * scale[other],
    )
    for name, need in list(needs.items()):
        part = min(need[binding], bound[name])
        free = min(need[other], left[other], freed[name])
        got[binding][name] += part
        got[other][name] += free
        left[binding] -= part
        left[other] -= free
        rest_of_need = (0, need[other] - free) if binding == 0 else (need[other] - free, 0)
        needs[name] = rest_of_need
        if need[binding]:
            del needs[name]


def _rounded(parts: Mapping[str, int], whole: int) -> dict[str, int]:
    """Divide parts by ``whole`` and round them so that they add up to the nearest number of their sum.

    Were each rounded down, those that go on would get all that the rounding of the others leaves.
    """
    rounded = {name: part // whole for name, part in parts.items()}
    more = (2 * sum(parts.values()) + whole) // (2 * whole) - sum(rounded.values())
    for name in sorted(parts, key=lambda name: (-(parts[name] % whole), name))[:more]:
        rounded[name] += 1
    return rounded
