"""The namespaces whose topics a broker that starts may have loaded before it knew their group.

A topic of Pulsar asks for its group's limiter when it is loaded, and when its namespace's policies
change. Clients are back at a broker that starts anew before it has read the groups, and topics that are
loaded then have no limiter. A broker names a group in its reports once it knows it and what is attached
to it. So at the first poll after that, all namespaces of the group with topics at the broker are due to
be attached again, which gives their topics the limiter: before any counter tells that one has none
(overflow.py), as a broker that starts lets the whole record pass for two intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND

_WATCHED_INTERVALS: Final = 30
"""Groups that the broker has not named by then are left to forgotten attachments, and to overflow."""

DUE_MAX: Final = 1_000
"""Each takes a write of the policies, of which all brokers hear. Overflow finds the others."""


class EarlyTopics:
    """Of one broker, since it was last seen to start."""

    def __init__(self) -> None:
        self._unnamed: frozenset[str] = frozenset()
        self._until_ns = 0
        #: The namespaces to attach again, each with its native group.
        self.due: dict[str, str] = {}

    def broker_started(self, groups: Iterable[str], interval_s: int, now_ns: int) -> None:
        """Take the news; from now on these native groups have topics without a limiter."""
        self._unnamed = frozenset(groups)
        self._until_ns = now_ns + _WATCHED_INTERVALS * interval_s * NANOS_PER_SECOND
        self.due = {}

    def poll(self, loaded: Mapping[str, str], is_named: Callable[[str], bool], now_ns: int) -> None:
        """Take the namespaces with topics at the broker, by group, and which groups it names."""
        named = frozenset(filter(is_named, self._unnamed))
        for namespace, group in loaded.items():
            if group in named and len(self.due) < DUE_MAX:
                self.due[namespace] = group
        self._unnamed = frozenset() if now_ns >= self._until_ns else self._unnamed - named

    @property
    def is_expected(self) -> bool:
        """Whether namespaces may become due soon."""
        return bool(self._unnamed)
