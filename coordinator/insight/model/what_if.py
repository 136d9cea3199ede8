"""Facts that would change a limit: the split made once more, with one fact changed.

The numbers are exact results of the law, from the present facts; nothing is guessed and nothing is
changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from coordinator.core.allocation.splitting import WEIGHTS, Split, split_rows
from coordinator.core.model import DIMENSIONS_OF, Dimension, Rates, ResourceGroup
from coordinator.core.state import CoordinatorState
from coordinator.core.usage.rows import UsageRow

_MORE_PART = 10
"""A higher limit is one that is higher by this fraction: a tenth."""


def would_change(
    state: CoordinatorState, name: str, dimension: Dimension, broker: str | None
) -> tuple[str, ...]:
    """Return the changes that would raise a limited broker's target, each with the gain; else empty.

    Args:
        state: the state to read.
        name: the group.
        dimension: the dimension.
        broker: the broker; None is this sidecar's own.
    """
    group = (state.groups or {}).get(name)
    subject = broker or state.settings.broker
    rows = state.usage.rows(name, dimension.monitoring_class)
    if group is None or group.limits.of(dimension) is None or subject not in rows:
        return ()
    if group.entitled is not None:
        return ()  # its part of the tree follows from the demand of the other groups, too
    case = _Case(state, group, dimension, rows, subject)
    now = case.split(group, rows)
    wants = now.claims[subject].wants
    if wants is not None and wants <= now.target_of(subject):
        return ()
    return tuple(case.changes(now))


@dataclass(frozen=True, slots=True)
class _Case:
    """A limited broker, and the present facts."""

    state: CoordinatorState
    group: ResourceGroup
    dimension: Dimension
    rows: Mapping[str, UsageRow]
    subject: str

    def split(self, group: ResourceGroup, rows: Mapping[str, UsageRow]) -> Split:
        """Split by the law with these facts."""
        members, settings = len(self.state.members), self.state.settings
        made = split_rows(group, self.dimension.monitoring_class, rows, members, settings)
        return made[self.dimension]

    def changes(self, now: Split) -> Iterator[str]:
        """Yield the changes that would raise the broker's target, in words."""
        yield from self._higher_limit(now)
        yield from self._less_elsewhere(now)
        yield from self._other_weights(now)

    def _higher_limit(self, now: Split) -> Iterator[str]:
        scarce = self.dimension
        if now.binds is not None:
            both = DIMENSIONS_OF[self.dimension.monitoring_class]
            (scarce,) = (one for one in both if one.unit is now.binds)
        limit = self.group.limits.of(scarce)
        if not limit:
            return
        more = max(1, limit // _MORE_PART)
        limits = {one: self.group.limits.of(one) for one in Dimension} | {scarce: limit + more}
        higher = replace(self.group, limits=Rates.from_mapping(limits))
        gain = self._target(higher, self.rows) - now.target_of(self.subject)
        if gain > 0:
            yield f"a higher {scarce.value} (+{more:,}/s gives this broker +{gain:,}/s)"

    def _less_elsewhere(self, now: Split) -> Iterator[str]:
        others = [name for name in self.rows if name != self.subject]
        if not others:
            return
        largest = max(others, key=lambda name: (now.targets[name], name))
        rest = {name: row for name, row in self.rows.items() if name != largest}
        target = self._target(self.group, rest)
        if target > now.target_of(self.subject):
            yield f"less demand elsewhere (without {largest} it would be {target:,}/s)"

    def _other_weights(self, now: Split) -> Iterator[str]:
        for weights in WEIGHTS:
            target = self._target(replace(self.group, weights=weights), self.rows)
            if target != now.target_of(self.subject):
                yield f"weights {weights} (would give {target:,}/s)"

    def _target(self, group: ResourceGroup, rows: Mapping[str, UsageRow]) -> int:
        return self.split(group, rows).target_of(self.subject)
