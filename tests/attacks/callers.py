"""A caller of a sidecar's admin API that sends what it likes, from the address that it likes."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import select
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_TIMEOUT_S = 30.0
_DESCRIPTORS_BESIDE = 1_000


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    status: int
    text: str

    @property
    def reason(self) -> str:
        """The reason of a refusal."""
        return str(json.loads(self.text)["reason"])

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.text)


class Caller:
    """A caller of the admin API at a port of this machine.

    Args:
        port: the API's.
        address: where the caller is; every address of 127.0.0.0/8 is a host of its own.
    """

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._port = port
        self._address = address

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] = NO_HEADERS,
        *,
        reads: int | None = None,
    ) -> Answer:
        """Send one request on a connection of its own.

        Args:
            method: of the request.
            path: as it stands in the request's first line.
            body: JSON; None is an empty body.
            headers: sent beside the length; ``Host`` replaces the API's own.
            reads: bytes of the body to wait for; None is all.
        """
        content = b"" if body is None else json.dumps(body).encode()
        own = {"Host": f"127.0.0.1:{self._port}", "Content-Type": "application/json"}
        sent = {**own, **headers}
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._port, timeout=_TIMEOUT_S, source_address=(self._address, 0)
        )
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value.encode("latin-1"))
            connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(reads).decode())
        finally:
            connection.close()


@contextlib.contextmanager
def crowd(port: int, hosts: Sequence[str], each: int, *said: bytes) -> Iterator[list[Attacker]]:
    """Many connections to a port at once; they are closed afterwards, with those that are added.

    Args:
        port: on this machine.
        hosts: addresses to connect from.
        each: connections of every host.
        said: what a connection sends, and no more; they take turns.
    """
    attackers: list[Attacker] = []
    with _descriptors(len(hosts) * each + _DESCRIPTORS_BESIDE):
        try:
            for number in range(each):
                attackers += [Attacker(port, host, said[number % len(said)]) for host in hosts]
            yield attackers
        finally:
            for attacker in attackers:
                attacker.close()


class Attacker:
    """One connection that says little and waits."""

    def __init__(self, port: int, host: str, said: bytes) -> None:
        self._socket = socket.create_connection(
            ("127.0.0.1", port), timeout=_TIMEOUT_S, source_address=(host, 0)
        )
        self.said = said
        self.heard = b""
        self.ended = False
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(said)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def read(self) -> None:
        """Take what has come, without waiting."""
        try:
            found = self._socket.recv(1 << 16)
        except ConnectionError:
            found = b""
        self.heard += found
        self.ended = not found

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def still_open(attackers: Sequence[Attacker]) -> int:
    """The number of connections that the other side has not ended."""
    waiting = select.poll()
    by_descriptor = {each.fileno(): each for each in attackers if not each.ended}
    for descriptor in by_descriptor:
        waiting.register(descriptor, select.POLLIN)
    for descriptor, _ in waiting.poll(0):
        by_descriptor[descriptor].read()
    return sum(not each.ended for each in attackers)


@contextlib.contextmanager
def _descriptors(needed: int) -> Iterator[None]:
    """Allow this process the file descriptors that it needs for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= needed, f"needs ulimit -n {needed}, has {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
