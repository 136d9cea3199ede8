"""Local limits of groups -> parts of native groups, so that every limit holds.

A native group counts against one or more groups; a group's local limit is shared by all native groups
that count against it. The parts are max-min fair: all of them rise together, each until it meets its
demand or one of its groups is used up; the rest after all demands are met rises on in the same way, as
headroom. Then no part can grow without a smaller one shrinking, and the parts of no group exceed its
limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from coordinator.native.engine.sets import GroupSet


class NativePart(NamedTuple):
    """The publish rate of a native group here.

    Args:
        rate: per second.
        binding: the group whose limit keeps it from more; empty if none does.
    """

    rate: int
    binding: str


def split(
    limits: Mapping[str, int], wants: Mapping[GroupSet, int | None]
) -> dict[GroupSet, NativePart | None]:
    """Return the parts of one unit.

    Args:
        limits: local limits of groups here; a group that is not among them is not limited.
        wants: demand of each set, per second; None is unbounded.

    Returns:
        A part for each set; None where no group of it is limited.
    """
    limited = {groups: [name for name in groups if name in limits] for groups in wants}
    parts: dict[GroupSet, NativePart | None] = dict.fromkeys(wants)
    rates = {groups: 0 for groups, names in limited.items() if names}
    left = dict(limits)
    binding = dict.fromkeys(rates, "")
    for wanted in (wants, dict.fromkeys(wants)):
        _rise(rates, left, binding, limited, wanted)
    for groups, rate in rates.items():
        parts[groups] = NativePart(rate, binding[groups])
    return parts


def _rise(
    rates: dict[GroupSet, int],
    left: dict[str, int],
    binding: dict[GroupSet, str],
    limited: Mapping[GroupSet, list[str]],
    wants: Mapping[GroupSet, int | None],
) -> None:
    """Let all rates rise together until each meets its demand or is bound."""
    rising = {
        groups
        for groups, rate in rates.items()
        if not binding[groups] and ((want := wants[groups]) is None or want > rate)
    }
    while rising:
        users = Counter(name for groups in rising for name in limited[groups])
        step = min(left[name] // count for name, count in users.items())
        wanted = [want - rates[each] for each in rising if (want := wants[each]) is not None]
        step = min((step, *wanted))
        for groups in rising:
            rates[groups] += step
        left.update({name: left[name] - step * count for name, count in users.items()})
        for groups in sorted(rising):
            binding[groups] = next((n for n in limited[groups] if left[n] < users[n]), "")
        rising = {each for each in rising if not binding[each] and rates[each] != wants[each]}
