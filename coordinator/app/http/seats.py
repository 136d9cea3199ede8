"""The connections allowed: a number in all, and a number from one host; pure bookkeeping.

A connection *waits* while it has no request under way, in its TLS handshake too. At a bound, a new one
takes the seat of the one that has waited longest, from the same host where its bound is reached. Silent
connections therefore block no other one, however many there are, and a connection with a request keeps
its seat until it is answered. Only where every seat has a request under way is the new one turned away.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Holder = TypeVar("Holder")


class Full(Exception):
    """Every seat has a request under way; the text says at which bound."""


class Seats(Generic[Holder]):
    """The seats of one server.

    Args:
        total: of all hosts.
        per_host: of one.
    """

    def __init__(self, total: int, per_host: int) -> None:
        self._total = total
        self._per_host = per_host
        self._hosts: dict[Holder, str] = {}
        #: The number of seats of each host that has one.
        self._taken: dict[str, int] = {}
        #: The waiting connections, the longest first; of all, and of each host that has one.
        self._waiting: dict[Holder, None] = {}
        self._waiting_of: dict[str, dict[Holder, None]] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def take(self, holder: Holder, host: str) -> Holder | None:
        """Give a connection a seat, in which it waits; return the one that must leave for it.

        Raises:
            Full: there is none, and none becomes free.
        """
        leaves: Holder | None = None
        if self._taken.get(host, 0) >= self._per_host:
            leaves = next(iter(self._waiting_of.get(host, ())), None)
            if leaves is None:
                raise Full(f"{self._per_host} connections of {host} have requests under way")
        elif len(self._hosts) >= self._total:
            leaves = next(iter(self._waiting), None)
            if leaves is None:
                raise Full(f"{self._total} connections have requests under way")
        if leaves is not None:
            self.leave(leaves)
        self._hosts[holder] = host
        self._taken[host] = self._taken.get(host, 0) + 1
        self.waits(holder)
        return leaves

    def leave(self, holder: Holder) -> None:
        """Free a seat; a connection without a seat may leave, too."""
        host = self._hosts.pop(holder, None)
        if host is None:
            return
        self._stand_up(holder, host)
        self._taken[host] -= 1
        if not self._taken[host]:
            del self._taken[host]

    def asks(self, holder: Holder) -> None:
        """Note that a connection has a request under way."""
        host = self._hosts.get(holder)
        if host is not None:
            self._stand_up(holder, host)

    def waits(self, holder: Holder) -> None:
        """Note that a connection has no request under way any more."""
        host = self._hosts.get(holder)
        if host is not None and holder not in self._waiting:
            self._waiting[holder] = None
            self._waiting_of.setdefault(host, {})[holder] = None

    def _stand_up(self, holder: Holder, host: str) -> None:
        self._waiting.pop(holder, None)
        waiting = self._waiting_of.get(host)
        if waiting is not None:
            waiting.pop(holder, None)
            if not waiting:
                del self._waiting_of[host]
