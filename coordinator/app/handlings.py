"""The handling of each group's traffic that the gate was told."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.handling import DEFAULT_HANDLING, Handling, handling_of
from coordinator.core.model import ResourceGroup


class Handlings:
    """The handling that the gate was told of each group; none of a group with the default."""

    def __init__(self) -> None:
        self._told: dict[str, Handling] = {}

    def changed(self, groups: Iterable[ResourceGroup]) -> list[tuple[str, Handling]]:
        """Return what to tell the gate, now that these are all groups."""
        wanted = {group.name: handling_of(group) for group in groups}
        wanted = {name: each for name, each in wanted.items() if each != DEFAULT_HANDLING}
        before, self._told = self._told, wanted
        return [
            (name, wanted.get(name, DEFAULT_HANDLING))
            for name in sorted(before.keys() | wanted.keys())
            if before.get(name) != wanted.get(name)
        ]
