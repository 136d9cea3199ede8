"""The common part of a connection's producers and consumers: they count for groups and wait for them.

A participant counts for the groups of its topic while it is connected. These groups can change at any
time; ``attach`` moves it to the new ones without removing it from a group that it stays in, so that no
listener is told of a participant that left and one that came. Its traffic also counts for its namespace,
together with the groups of that moment (limits/namespaces.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

from coordinator.gate.limits.group import Group
from coordinator.gate.limits.metering import MeteredLimiter
from coordinator.gate.limits.namespaces import NOWHERE, NamespaceCounter
from coordinator.gate.limits.service_order import ClientTurns, Turn

HELD_FRAME_OVERHEAD: Final = 276
"""Memory of a held frame beside its bytes: a bytes object, two tuples, their numbers and a place in the
queue (CPython 3.11 to 3.13, 64 bits; tests/gate/engine/test_held_memory.py measures it)."""

OwnLimiter = TypeVar("OwnLimiter", bound=MeteredLimiter)
"""The limiter of this kind of participant."""


class Participant(ABC, Generic[OwnLimiter]):
    """A producer or a consumer.

    Args:
        topic: the topic that it publishes to or consumes.
        client: the turns that it shares with all others of its client.
        exempt: whether it belongs to geo-replication, and so counts against no group of its topic.
    """

    __slots__ = (
        "client", "exempt", "limiters", "namespace", "served_until_ns", "topic", "turn", "waits_for",
    )  # fmt: skip

    def __init__(self, topic: str, client: ClientTurns, *, exempt: bool = False) -> None:
        self.topic = topic
        self.client = client
        self.exempt = exempt
        #: The counters of its traffic: one per group of the topic.
        self.limiters: tuple[OwnLimiter, ...] = ()
        #: The counter of its namespace; that of replication if it is exempt.
        self.namespace = NOWHERE
        #: The admission queue keeps these; see ``Waiter``.
        self.turn: Turn = (0, 0)
        self.served_until_ns: dict[MeteredLimiter, int] = {}
        self.waits_for: MeteredLimiter | None = None

    @property
    def needed(self) -> tuple[OwnLimiter, ...]:
        """The limiters that must admit its first held frame or permits."""
        return self.limiters

    @property
    def gives_up_ns(self) -> int | None:
        """The time at which its first held frame is overdue; None is never."""
        return None

    def give_up(self, now_ns: int) -> None:
        """Do nothing: what waits without an end gives up never."""

    def counts_for(self, groups: tuple[Group, ...]) -> bool:
        """Return whether it counts for exactly these groups now."""
        return self.limiters == self._limiters_of(groups)

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; it must not wait if the groups differ."""
        before, self.limiters = self.limiters, self._limiters_of(groups)
        self.served_until_ns.clear()
        for limiter in self.limiters:
            if limiter not in before:
                limiter.counter.join(self.topic)
        for limiter in before:
            if limiter not in self.limiters:
                limiter.counter.leave(self.topic)

    def count_for(self, namespace: NamespaceCounter) -> None:
        """Count for this namespace counter from now on; a waiting participant keeps its counter."""
        if self.exempt or self.waits_for is not None or namespace is self.namespace:
            return
        self.namespace.joined(-1)
        self.namespace = namespace
        namespace.joined(1)

    def wait_for(self, limiter: MeteredLimiter | None, now_ns: int) -> None:
        """Wait for this limiter from now on, or for none."""
        if limiter is None and self.waits_for is not None:
            self.namespace.go_on(now_ns)
        elif limiter is not None and self.waits_for is None:
            self.namespace.wait(now_ns)
        self.waits_for = limiter

    def _limiters_of(self, groups: tuple[Group, ...]) -> tuple[OwnLimiter, ...]:
        return tuple(map(self._limiter_of, groups))

    @staticmethod
    @abstractmethod
    def _limiter_of(group: Group) -> OwnLimiter: ...
