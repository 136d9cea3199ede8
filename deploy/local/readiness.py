"""Waiting until a server does its work, which is later than listening on its port.

A server that dies while it is waited for is reported with the end of its log at once; the
timeout is not waited out for a process that is gone.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.local import rest
from deploy.local.errors import LocalClusterError
from deploy.local.processes import tail
from deploy.local.state import Broker, Server

_POLL_S = 0.1
_PROBE_TIMEOUT_S = 2.0


def zookeeper_ready(server: Server) -> bool:
    """Say whether it serves sessions: `srvr` names its mode then, while `ruok` lies."""
    try:
        with socket.create_connection((server.host, server.port), _PROBE_TIMEOUT_S) as peer:
            peer.sendall(b"srvr")
            with peer.makefile("rb") as answer:
                return b"Mode:" in answer.read()
    except OSError:
        return False


def port_ready(server: Server) -> bool:
    """Say whether anything listens on the server's port; a bookie opens its port last."""
    try:
        with socket.create_connection((server.host, server.port), _PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False


def broker_ready(broker: Broker, within_s: float = _PROBE_TIMEOUT_S) -> bool:
    """Say whether the broker itself says so, within some seconds."""
    try:
        rest.request("GET", f"{broker.web_url}/admin/v2/brokers/ready", timeout_s=within_s)
    except LocalClusterError:
        return False
    return True


def probe_of(server: Server) -> Callable[[], bool]:
    """Return the probe that fits this server."""
    if isinstance(server, Broker):
        return lambda: broker_ready(server)
    if server.name.startswith("zookeeper"):
        return lambda: zookeeper_ready(server)
    return lambda: port_ready(server)


def wait_until_ready(servers: Sequence[Server], timeout_s: float) -> None:
    """Wait for all of these servers.

    Raises:
        LocalClusterError: one of them died, or was not ready in time; it is named, with its log.
    """
    deadline = time.monotonic() + timeout_s
    waiting = list(servers)
    while waiting:
        for server in waiting:
            # Asked first, so that a stranger's answer on the port is not taken for ours.
            if not server.alive:
                raise LocalClusterError(f"{server.name} died.\n{_end_of_log(server)}")
        waiting = [server for server in waiting if not probe_of(server)()]
        if waiting and time.monotonic() >= deadline:
            slow = waiting[0]
            raise LocalClusterError(
                f"{slow.name} was not ready after {timeout_s:.0f} s.\n{_end_of_log(slow)}"
            )
        if waiting:
            time.sleep(_POLL_S)


def _end_of_log(server: Server) -> str:
    return f"The end of {server.log_file}:\n{tail(Path(server.log_file))}"
