"""Answers to the brokers whose raises wait for this one: the other half of raise_protocol.py.

An answer names the newest report taken from the asker, in the same report as this broker's own limits and
ceilings wherever the asker has announced a raise. The receiver therefore learns both at once: that its
ceiling is known here, and which limits it meets here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from coordinator.core.allocation.forest import Forest
from coordinator.core.allocation.splitting import reserve_in
from coordinator.core.model import DIMENSIONS_OF, ResourceGroup, TrafficKey
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import UsageMap


class Answers(NamedTuple):
    """The answers to the brokers whose raises wait for this one."""

    #: The newest report taken, by incarnation of the asker.
    sequences: Mapping[int, int]
    #: The keys that the answering report must list.
    keys: Collection[TrafficKey]


def answers_to_all(
    usage: UsageMap,
    groups: Mapping[str, ResourceGroup],
    settings: CoreSettings,
    forest: Forest,
) -> Answers:
    """Return the answers to all brokers whose raises wait for this one."""
    sequences: dict[int, int] = {}
    keys: set[TrafficKey] = set()
    for peer in usage.askers():
        if asked := asked_by(peer, usage, groups, settings, forest):
            incarnation, sequence = usage.newest(peer)
            sequences[incarnation] = sequence
            keys |= asked
    return Answers(sequences, keys)


def asked_by(
    peer: str,
    usage: UsageMap,
    groups: Mapping[str, ResourceGroup],
    settings: CoreSettings,
    forest: Forest,
) -> set[TrafficKey]:
    """Return the keys where a peer's raises wait for this broker: in a tree, of all its leaves."""
    return {
        (kin, key[1])
        for key in usage.raises(peer)
        if _concerns(key, peer, usage, groups, settings, forest)
        for kin in forest.kin(key[0])
    }


def _concerns(
    key: TrafficKey,
    asker: str,
    usage: UsageMap,
    groups: Mapping[str, ResourceGroup],
    settings: CoreSettings,
    forest: Forest,
) -> bool:
    """Return whether a raise waits for this broker: it takes part, or it may be the asker's first raise.

    An asker that has not raised itself yet holds a reserve, which may be that of fewer members.
    """
    group, row = groups.get(key[0]), usage.row(asker, *key)
    if group is None or row is None:
        return False
    if any(usage.takes_part(kin, key[1]) for kin in forest.kin(key[0])):
        return True
    return any(
        group.limits.of(dimension) is not None
        and (row.usage.limit_of(dimension.unit) or 0) <= reserve_in(group, dimension, 1, settings)
        for dimension in DIMENSIONS_OF[key[1]]
    )
