"""A client of one gate that speaks for itself, and so may say anything of who it is."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Self

from tests.gate import peer
from tests.integration.world import World

CONNECTED, SEND_RECEIPT, ERROR, PRODUCER_SUCCESS, NEVER = 3, 7, 14, 17, 0
AUTH_CHALLENGE, AUTH_RESPONSE = 36, 37


class Raw:
    """A client of the first broker's gate.

    Args:
        world: with that gate.
        credentials: its token.
        original: the role that it names as a proxy names its client's; empty names none.
    """

    def __init__(self, world: World, credentials: str, original: str = "") -> None:
        port = world.cluster.brokers[0].gate_port
        self._sending = threading.Lock()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._buffer = b""
        # supports_auth_refresh: else the broker closes the connection when the token expires.
        renews = peer.message((1, 1))
        said: list[peer.Field] = [(1, "test"), (3, credentials.encode()), (4, 19), (5, "token")]
        said += [(7, original)] if original else []
        self.send(peer.command(2, *said, (10, renews)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        with self._sending:
            self._socket.sendall(frame)

    def await_(self, kind: int) -> bytes:
        """Return the next frame of this kind."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            while len(self._buffer) < 4 or len(self._buffer) < self._size():
                data = self._socket.recv(65536)
                if not data:
                    raise EOFError("closed")
                self._buffer += data
            frame, self._buffer = self._buffer[: self._size()], self._buffer[self._size() :]
            if peer.kind_of(frame) == kind:
                return frame
        raise AssertionError(f"no frame of type {kind}, nor the end, in a minute")

    def answer(self, credentials: str) -> None:
        """Answer the broker's next challenge."""
        self.await_(AUTH_CHALLENGE)
        data = peer.message((1, "token"), (2, credentials.encode()))
        self.send(peer.command(AUTH_RESPONSE, (1, "test"), (2, data), (3, 19)))

    def publish(self, stop: threading.Event) -> None:
        """Publish as fast as the gate reads, until it is told or closed."""
        with contextlib.suppress(OSError):
            for number in range(1_000_000):
                if stop.is_set():
                    return
                self.send(peer.send(sequence_id=number))
                time.sleep(0.002)

    def _size(self) -> int:
        return 4 + int.from_bytes(self._buffer[:4], "big")
