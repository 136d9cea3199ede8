"""What to answer to those whose raises wait for this broker: the other half of raising.py.

An answer says which report of the asker was taken last, in the same report as what this broker itself
holds and may hold wherever the asker has announced a raise. So whoever takes an answer knows both at
once: that its ceiling is known here, and what there is here beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from coordinator.core.allocation import reserve_of
from coordinator.core.model import DIMENSIONS_OF, Key, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.usage_map import UsageMap


class Answers(NamedTuple):
    """What to answer to those whose raises wait for this broker."""

    #: The newest report taken, by incarnation of the asker.
    sequences: Mapping[int, int]
    #: What the report that answers has to list.
    keys: Collection[Key]


def answers_to_all(
    usage: UsageMap,
    groups: Mapping[str, ResourceGroup],
    settings: CoreSettings,
) -> Answers:
    """What to answer to all whose raises wait for this broker."""
    sequences: dict[int, int] = {}
    keys: set[Key] = set()
    for peer in usage.askers():
        if asked := asked_by(peer, usage, groups, settings):
            incarnation, sequence = usage.newest(peer)
            sequences[incarnation] = sequence
            keys |= asked
    return Answers(sequences, keys)


def asked_by(
    peer: str,
    usage: UsageMap,
    groups: Mapping[str, ResourceGroup],
    settings: CoreSettings,
) -> set[Key]:
    """Where a peer's raises wait for this broker."""
    return {key for key in usage.raises(peer) if _concerns(key, peer, usage, groups, settings)}


def _concerns(
    key: Key,
    asker: str,
    usage: UsageMap,
    groups: Mapping[str, ResourceGroup],
    settings: CoreSettings,
) -> bool:
    """Whether a raise waits for this broker: it takes part, or it may be the asker's first raise.

    An asker that has not raised itself yet holds a reserve, of however few members there were then.
    """
    group, row = groups.get(key[0]), usage.row(asker, *key)
    if group is None or row is None:
        return False
    if usage.takes_part(*key):
        return True
    return any(
        (limit := group.limits.of(dimension)) is not None
        and (row.usage.limit_of(dimension.unit) or 0) <= reserve_of(limit, 1, settings)
        for dimension in DIMENSIONS_OF[key[1]]
    )
