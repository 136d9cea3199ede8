"""Random trees of groups, and the exact parts of all groups as the definition has them, in fractions.

The reference shares nothing with the law under test: it raises the level of an inner group from
one child that has enough to the next, in fractions. It rounds as the law says it does, by largest
remainder and then by name, once for each step at each inner group, and goes down from the rounded parts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from coordinator.core.allocation.tree import GroupNode, Limits, Pair, Want, share_tree

_MOST_MESSAGES: Final = 10_000
_MOST_BYTES: Final = 10_000_000
_DEPTH: Final = 4
_MOST_CHILDREN: Final = 4


def random_tree(rng: random.Random, *, joint: bool = False) -> tuple[GroupNode, dict[str, Want]]:
    """Return a tree with a limited root and guarantees that it can keep, and what its leaves want.

    Args:
        rng: the source of chance.
        joint: whether messages and bytes are limited; otherwise messages alone.
    """
    limits = (rng.randint(0, _MOST_MESSAGES), rng.randint(0, _MOST_BYTES) if joint else None)
    most = (limits[0], limits[1] or 0)
    children = _random_children(rng, "g", most, most, 1)
    root = GroupNode("g", limits, children=children)
    wants = {}
    for leaf in root.leaves():
        size = rng.choice([0, 1, 100, 1_000, 20_000])
        messages = rng.randint(0, _MOST_MESSAGES)
        demand: Limits = (messages, messages * size)
        wants[leaf.name] = Want((None, None) if rng.random() < 0.4 else demand, size)
    return root, wants


def _random_children(
    rng: random.Random, name: str, guaranteed: Pair, most: Pair, depth: int
) -> tuple[GroupNode, ...]:
    """Return children that are guaranteed no more than their parent is."""
    left = guaranteed
    children = []
    for number in range(rng.randint(1, _MOST_CHILDREN)):
        own = (rng.randint(0, left[0]), rng.randint(0, left[1]))
        own = (0, 0) if rng.random() < 0.4 else own
        left = (left[0] - own[0], left[1] - own[1])
        below: tuple[GroupNode, ...] = ()
        if depth + 1 < _DEPTH and rng.random() < 0.3:
            below = _random_children(rng, f"{name}{number}", own, most, depth + 1)
        limits = (_cap(rng, own[0], most[0]), _cap(rng, own[1], most[1]))
        children.append(GroupNode(f"{name}{number}", limits, own, rng.randint(1, 4), below))
    return tuple(children)


def _cap(rng: random.Random, least: int, most: int) -> int | None:
    return rng.randint(least, max(least, most)) if most and rng.random() < 0.4 else None


def exact_parts(root: GroupNode, wants: Mapping[str, Want]) -> dict[str, int]:
    """Return the part of every group of a tree that limits messages alone."""
    caps: dict[str, Fraction] = {}
    demand: dict[str, Fraction] = {}
    _add_up(root, None, wants, caps, demand)
    parts = {root.name: root.limits[0] or 0}
    todo = [root]
    while todo:
        node = todo.pop()
        children = {child.name: child for child in node.children}
        got = dict.fromkeys(children, 0)
        left = parts[node.name]
        first = {
            name: min(demand[name], Fraction(child.guarantees[0]))
            for name, child in children.items()
        }
        for up_to in (first, demand, caps):
            needs = {name: up_to[name] - got[name] for name in children}
            weights = {name: child.weight for name, child in children.items()}
            for name, part in _rounded(raised(Fraction(left), needs, weights)).items():
                got[name] += part
                left -= part
        parts |= got
        todo += node.children
    return parts


def _add_up(
    node: GroupNode,
    above: Fraction | None,
    wants: Mapping[str, Want],
    caps: dict[str, Fraction],
    demand: dict[str, Fraction],
) -> None:
    own = node.limits[0]
    known = [Fraction(each) for each in (above, own) if each is not None]
    cap = min(known)
    caps[node.name] = cap
    for child in node.children:
        _add_up(child, cap, wants, caps, demand)
    if node.children:
        total = sum((demand[each.name] for each in node.children), Fraction())
        demand[node.name] = min(cap, total)
    else:
        wanted = wants[node.name].demand[0]
        demand[node.name] = cap if wanted is None else min(cap, Fraction(wanted))


def raised(
    left: Fraction, needs: Mapping[str, Fraction], weights: Mapping[str, int]
) -> dict[str, Fraction]:
    """Raise all together, by weight, until each has what it needs or nothing is left."""
    got = dict.fromkeys(needs, Fraction())
    rising = {name for name, need in needs.items() if need > 0}
    while rising and left > 0:
        weight = sum(weights[name] for name in rising)
        step = min(left / weight, *((needs[name] - got[name]) / weights[name] for name in rising))
        for name in rising:
            got[name] += step * weights[name]
        left -= step * weight
        rising = {name for name in rising if got[name] < needs[name]}
    return got


def _rounded(parts: Mapping[str, Fraction]) -> dict[str, int]:
    """Round parts so that they add up to the whole number that they add up to."""
    whole = {name: int(part) for name, part in parts.items()}
    left = int(sum(parts.values(), Fraction())) - sum(whole.values())
    by_remainder = sorted(parts, key=lambda name: (whole[name] - parts[name], name))
    for name in by_remainder[:left]:
        whole[name] += 1
    return whole


def differs(rng: random.Random) -> str:
    """Compare the law with the reference on a random tree; return what differs, if anything does."""
    root, wants = random_tree(rng)
    parts = {name: part[0] for name, part in share_tree(root, wants).items()}
    exact = exact_parts(root, wants)
    return "" if parts == exact else f"{root}, {wants}: {parts}, not {exact}"
