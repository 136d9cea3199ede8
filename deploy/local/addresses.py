"""The loopback addresses that a cluster can be on, and how each is written and named.

An IPv6 address has no place in some of Pulsar: its C++ client, which Python's is, takes none in a service
URL; BookKeeper takes none in ZooKeeper's addresses; a broker takes none as its own, since a namespace is
called after it. All of them take a name, which therefore stands in their places.
"""

from __future__ import annotations

import socket
from typing import Final

from deploy.local.errors import WrongUseError

LOOPBACK: Final = "127.0.0.1"
"""Where a cluster is unless another address is chosen."""

LOOPBACK_6: Final = "::1"

LOOPBACKS: Final = (LOOPBACK, LOOPBACK_6)

_NAMES: Final = ("ip6-localhost", "localhost6", "localhost")
"""Names of ::1 in the /etc/hosts of distributions; the last one mostly has 127.0.0.1, too."""


def at(host: str, port: int) -> str:
    """Return host:port, as URLs and configuration files have it: an IPv6 address in brackets."""
    return f"{bracketed(host)}:{port}"


def bracketed(host: str) -> str:
    """Return a host as URLs have it."""
    return f"[{host}]" if ":" in host else host


def name_of(host: str) -> str:
    """Return what a loopback address is called where no IPv6 address may be; 127.0.0.1 is itself.

    Raises:
        WrongUseError: this machine has no name for ::1 alone.
    """
    if host == LOOPBACK:
        return host
    for name in _NAMES:
        if _addresses(name) == {host}:
            return name
    raise WrongUseError(
        f"No name of this machine is {host} alone, and Pulsar's clients take no IPv6 address in a "
        f"service URL. Add the line `{host} {_NAMES[0]}` to /etc/hosts."
    )


def _addresses(name: str) -> set[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(address[0]) for *_, address in found}
