"""File descriptors: how many connections this process can have with the descriptors it may open.

A process without free descriptors cannot even accept a client to close its connection. So if the
configuration allows more connections than the descriptors do, the descriptors are the bound, and the gate
behaves at either bound in the same way.
"""

from __future__ import annotations

import resource
from typing import Final

import structlog

EACH: Final = 2
"""Descriptors of a connection: the client's and the broker's."""

BESIDE: Final = 256
"""Descriptors beside connections: files, the channel, sockets that listen, libraries."""

_ENDLESS: Final = 2**62

_log = structlog.get_logger(__name__)


def needed(connections: int) -> int:
    """Return the descriptors that this number of connections needs."""
    return EACH * connections + BESIDE


def connections_max(wanted: int) -> int:
    """Return how many of the wanted connections are possible; raise the soft limit if that helps."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(needed(wanted), _number(hard))
    if _number(soft) < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    else:
        allowed = _number(soft)
    possible = max(1, (allowed - BESIDE) // EACH)
    if possible >= wanted:
        return wanted
    _log.warning(
        "too few file descriptors for gate_connections_max: the bound is lower; raise the limit of open "
        "files (LimitNOFILE of the unit, ulimit -n)",
        gate_connections_max=wanted,
        bound=possible,
        descriptors=allowed,
        needed=needed(wanted),
    )
    return possible


def _number(limit: int) -> int:
    return _ENDLESS if limit == resource.RLIM_INFINITY else limit
