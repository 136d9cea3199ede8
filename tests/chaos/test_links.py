"""Links that are sound, stalled, slow, lossy or severed, between real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from deploy.chaos.links import Link, Links, Treatment

pytestmark = pytest.mark.slow
#: Long enough for a stalled byte to have come, had it not been stalled.
A_WHILE_S = 0.3


@pytest.fixture
def echo() -> Iterator[int]:
    """Return the port of a server that sends everything back."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []

    def answer(peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := peer.recv(65536):
                peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                accepted.append(peer)
                threading.Thread(target=answer, args=(peer,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for peer in accepted:
        peer.close()


@pytest.fixture
def links() -> Iterator[Links]:
    """A bench's links."""
    with Links(seed=1) as links:
        yield links


@pytest.fixture
def link(links: Links, echo: int) -> Link:
    """A link to the echo."""
    return links.open(echo)


@pytest.fixture
def client(link: Link) -> Iterator[socket.socket]:
    """Connected through the link."""
    with socket.create_connection(("127.0.0.1", link.port), 10.0) as connected:
        yield connected


def said_back(client: socket.socket, data: bytes, timeout_s: float = 10.0) -> bytes:
    """Return the bytes that come back within the time."""
    client.settimeout(timeout_s)
    client.sendall(data)
    received = b""
    with contextlib.suppress(TimeoutError):
        while len(received) < len(data):
            more = client.recv(65536)
            if not more:
                break
            received += more
    return received


def test_a_sound_link_passes_everything_on_and_ends_when_its_ends_do(client: socket.socket) -> None:
    """A megabyte there and back, and then the end of the stream."""
    data = bytes(range(256)) * 256
    for _ in range(16):
        assert said_back(client, data) == data
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""


@pytest.mark.parametrize(
    "condition", [Treatment(stalled_out=True), Treatment(stalled_back=True)], ids=["out", "back"]
)
def test_what_was_stalled_comes_when_the_link_is_mended(
    links: Links, link: Link, client: socket.socket, condition: Treatment
) -> None:
    """Neither side notices, and no byte is lost."""
    assert said_back(client, b"before") == b"before"
    links.become(condition, link)
    assert said_back(client, b"during", A_WHILE_S) == b""
    links.mend(link)
    client.settimeout(10.0)
    assert client.recv(100) == b"during"


def test_a_severed_link_resets_what_is_connected_and_who_connects(
    links: Links, link: Link, client: socket.socket
) -> None:
    """It works again when it is mended."""
    assert said_back(client, b"before") == b"before"
    links.become(Treatment(severed=True), link)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        _read_until_reset(client)
    with (
        socket.create_connection(("127.0.0.1", link.port), 10.0) as other,
        pytest.raises((ConnectionResetError, BrokenPipeError)),
    ):
        _read_until_reset(other)
    links.mend(link)
    with socket.create_connection(("127.0.0.1", link.port), 10.0) as third:
        assert said_back(third, b"after") == b"after"


def _read_until_reset(client: socket.socket) -> None:
    client.settimeout(10.0)
    while True:
        client.sendall(b"x")
        if not client.recv(100):
            raise ConnectionResetError


def test_a_slow_link_takes_its_time(links: Links, link: Link, client: socket.socket) -> None:
    """0.1 s each way, and 100 kB/s."""
    links.become(Treatment(delay_s=0.1, bytes_per_s=100_000), link)
    began_s = time.monotonic()
    assert said_back(client, bytes(10_000)) == bytes(10_000)
    assert time.monotonic() - began_s >= 0.4


def test_a_lossy_link_loses_time_and_nothing_else(
    links: Links, link: Link, client: socket.socket
) -> None:
    """Every piece meets a retransmission, on the way there and on the way back."""
    links.become(Treatment(loss=1.0), link)
    began_s = time.monotonic()
    assert said_back(client, b"once") == b"once"
    assert time.monotonic() - began_s >= 0.4


def test_a_link_to_a_dead_server_closes_its_connections(links: Links) -> None:
    """As when the server itself is gone."""
    with socket.socket() as kept:  # so that no other listens there, this link included
        kept.bind(("127.0.0.1", 0))
        link = links.open(kept.getsockname()[1])
        with (
            socket.create_connection(("127.0.0.1", link.port), 10.0) as client,
            pytest.raises((ConnectionResetError, BrokenPipeError)),
        ):
            _read_until_reset(client)
