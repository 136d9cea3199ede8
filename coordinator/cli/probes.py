"""Attempts from this machine: each probe returns None if it worked, or the fault.

Every probe works as the sidecar will (a ZooKeeper session, not just a port; the broker's own answer, not
just a connection; by the machine's authorities, round any proxy), because an open port says little about
the server behind it.
"""

from __future__ import annotations

import logging
import resource
import socket
import sys
from functools import partial
from pathlib import Path

import httpx
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from coordinator.adapters.zookeeper.access import ZooKeeperAccess, on_attempts, refusal
from coordinator.cli.whole_answers import WholeAnswers, in_words
from coordinator.runtime.client_tls import machine_trust

_SILENT = logging.getLogger(f"{__name__}.silent")
"""The level for a library's log of its attempts: the doctor reports their result."""

_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class Probes:
    """Probes of the real network and machine.

    Args:
        timeout_s: most seconds that each probe may take.
    """

    def __init__(self, timeout_s: float = 5.0) -> None:
        self._timeout_s = timeout_s

    def connect(self, host: str, port: int) -> str | None:
        """Open a TCP connection."""
        try:
            with socket.create_connection((host, port), timeout=self._timeout_s):
                return None
        except OSError as error:
            return _why(error)

    def listen(self, host: str, port: int) -> str | None:
        """Take a port for a moment, as a server would."""
        try:
            family, kind, protocol, _, target = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
                # As servers do: connections of an earlier run that linger are no obstacle.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(target)
        except OSError as error:
            return _why(error)
        return None

    def zookeeper_session(self, servers: str, root: str, access: ZooKeeperAccess) -> str | None:
        """Open a session with an ensemble, and read its root node."""
        client = KazooClient(
            hosts=servers, timeout=self._timeout_s, logger=_SILENT, **access.options()
        )
        refusals: list[str | None] = []
        on_attempts(client, access, refusals.append)
        try:
            client.start(timeout=self._timeout_s)
            client.get_children(root)
        except NoNodeError:  # nothing is kept there yet
            return None
        except (KazooException, KazooTimeoutError) as error:
            named = refusal(error) or next(filter(None, reversed(refusals)), None)
            return named or f"no session within {self._timeout_s:g} s"
        else:
            return None
        finally:
            client.stop()
            client.close()

    def read(self, path: str) -> str | None:
        """Read a file."""
        try:
            Path(path).read_bytes()
        except OSError as error:
            return _why(error)
        return None

    def descriptors(self) -> int:
        """Return the number of file descriptors that a process of this user may have."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if hard == resource.RLIM_INFINITY else hard

    def get_status(self, url: str) -> int | str:
        """Return the HTTP status of a GET, or the reason why there is none."""
        open_client = partial(
            httpx.Client, timeout=self._timeout_s, verify=machine_trust(url), trust_env=False
        )
        try:
            with WholeAnswers(open_client, self._timeout_s) as http:
                return http.request("GET", url).status_code
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return in_words(error)


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
