"""Bound the number of connections, in total and per host.

Each costs the gate memory and two file descriptors, the client's and the broker's. A gate without a bound
serves no client well during a flood. At the bound a client is accepted and closed at once, which costs
next to nothing; clients try again, after longer and longer pauses.

A host is an IPv4 address, or the first 64 bits of an IPv6 address: every machine has that many to itself.
Behind a proxy or a NAT many clients are one host.

Pure: no socket.
"""

from __future__ import annotations

import ipaddress
from collections import Counter

from coordinator.gate.engine.close_reason import CloseReason


class ConnectionLimits:
    """Counts connections from their first byte to their last.

    Args:
        total: most connections of all hosts; None is no limit.
        per_host: most connections of one host; None is no limit.
    """

    def __init__(self, total: int | None = None, per_host: int | None = None) -> None:
        self._total = total
        self._per_host = per_host
        self._of_host: Counter[str] = Counter()
        #: Connections of all hosts.
        self.count = 0

    def enter(self, address: str) -> CloseReason | None:
        """Count one more connection of this address; return the reason if the limit refuses it."""
        if self._total is not None and self.count >= self._total:
            return CloseReason.TOO_MANY
        host = host_of(address)
        if self._per_host is not None and self._of_host[host] >= self._per_host:
            return CloseReason.TOO_MANY_OF_HOST
        self._of_host[host] += 1
        self.count += 1
        return None

    def leave(self, address: str) -> None:
        """Count one connection of this address less."""
        host = host_of(address)
        self.count -= 1
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]


def host_of(address: str) -> str:
    """Return the host of an address: an IPv4 address, or the first 64 bits of an IPv6 address."""
    if ":" not in address:
        return address
    ip = ipaddress.IPv6Address(address)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.IPv6Network((ip, 64), strict=False))
