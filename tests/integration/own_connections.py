"""Where the clients in the process of a test are connected to: at gates, or at brokers' own ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pulsar

from deploy.background import Background
from deploy.clients import quiet_client

_REMOTE, _INODE = 2, 9  # columns of /proc/net/tcp


@contextmanager
def connected(url: str, timeout_s: int = 60) -> Iterator[pulsar.Client]:
    """A client that is closed while there are gates."""
    with closing(quiet_client(url, operation_timeout_seconds=timeout_s)) as client:
        yield client


class OwnConnections(Background):
    """Watches where this process, and with it the clients of the test, is connected to."""

    def __init__(self) -> None:
        super().__init__({"connections": self._look})
        self.seen: set[int] = set()

    def _look(self) -> None:
        while not self._stop.is_set():
            self.seen |= remote_ports()
            self._stop.wait(0.02)


def remote_ports() -> set[int]:
    """The ports at the other ends of this process's TCP connections."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            own.add(descriptor.readlink().name)
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    sockets = (line.split() for line in lines)
    return {
        int(fields[_REMOTE].rpartition(":")[2], 16)
        for fields in sockets
        if f"socket:[{fields[_INODE]}]" in own
    }
