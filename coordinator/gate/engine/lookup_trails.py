"""Topics that a host looks up again and again, and never opens at this gate.

A client opens its topic right after one lookup, so its *trail* ends with a PRODUCER or SUBSCRIBE of the
topic, on any connection of its host. A trail that goes on is of a client that was told an address and
does not reach it: a Pulsar proxy that refuses the gates' port, or a firewall. It may also be a client
that opens the topic at another gate over and over; so the asker checks that the own broker serves it.

Bound: `TRAILS_MAX` trails; the one that was followed longest ago is forgotten, and is found again if
its client goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.topics import TopicName
from coordinator.insight.model.gate_views import StrandedClient

TRAILS_MAX: Final = 1_000
"""The most trails that are kept."""

LOOKUPS_MIN: Final = 5
"""Lookups after which a client is stranded: about a second of a stock client's."""

_FRESH_NS: Final = 90 * NANOS_PER_SECOND
"""Stock clients ask at least once in a minute while they try."""

_NAME_MAX: Final = 1_024


@dataclass(slots=True)
class _Trail:
    lookups: int
    last_ns: int


@dataclass(slots=True)
class LookupTrails:
    """The trails of all connections of a gate."""

    _trails: dict[tuple[str, str], _Trail] = field(default_factory=dict)

    def looked_up(self, host: str, topic: str, now_ns: int) -> None:
        """Take a lookup."""
        key = _key(host, topic)
        if key is None:
            return
        trail = self._trails.pop(key, None) or _Trail(0, now_ns)
        trail.lookups += 1
        trail.last_ns = now_ns
        self._trails[key] = trail
        if len(self._trails) > TRAILS_MAX:
            del self._trails[next(iter(self._trails))]

    def opened(self, host: str, topic: str) -> None:
        """Take a PRODUCER or SUBSCRIBE: the trail ends."""
        key = _key(host, topic)
        if key is not None:
            self._trails.pop(key, None)

    def stranded(self, now_ns: int) -> tuple[StrandedClient, ...]:
        """Return the trails that go on, the longest first."""
        found = [
            StrandedClient(host, topic, trail.lookups)
            for (host, topic), trail in self._trails.items()
            if trail.lookups >= LOOKUPS_MIN and now_ns - trail.last_ns < _FRESH_NS
        ]
        return tuple(sorted(found, key=lambda each: (-each.lookups, each.host, each.topic)))


def _key(host: str, topic: str) -> tuple[str, str] | None:
    """Return the trail's key; None for a name that no broker would serve."""
    name = TopicName.parse(topic) if host and len(topic) <= _NAME_MAX else None
    return None if name is None else (host, str(name))
