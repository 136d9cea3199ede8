"""A client that says what it likes: hand-made frames on a socket, and what the other side answers."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from tests.clients.decoding import Command, Unreadable, command_of, split
from tests.gate import peer

CONNECTED, PRODUCER_SUCCESS, SUCCESS, ERROR, PING = 3, 17, 13, 14, 18
CONNECT = peer.command(2, (1, "attack"), (4, 19))
_TIMEOUT_S = 60.0


class RawClient:
    """A connection to a gate or a broker. Answers PINGs, and keeps everything else that comes.

    Args:
        port: where to connect, on this machine.
        connect: what to begin with, and wait for CONNECTED; empty begins with nothing.
        reads: whether to read at all.
    """

    def __init__(self, port: int, *, connect: bytes = CONNECT, reads: bool = True) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._news = threading.Condition()
        self.came: list[Command] = []
        self.closed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._reader.start()
        if connect:
            self.send(connect)
            self.wait_for({CONNECTED})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where this client connects from, as host:port."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        if self._reader.is_alive():
            self._reader.join(timeout=5)

    def send(self, data: bytes) -> bool:
        """Send bytes; False when the other side has hung up, or takes nothing."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return not self.closed

    def ask(self, frame: bytes, kinds: Collection[int]) -> Command | None:
        """Send a frame and wait for one of these types; None when the connection ends first."""
        seen = len(self.came)
        self.send(frame)
        return self.wait_for(kinds, seen)

    def wait_for(
        self, kinds: Collection[int], after: int = 0, timeout_s: float = _TIMEOUT_S
    ) -> Command | None:
        """The first frame of one of these types; None when the connection ends, or none comes."""
        deadline_s = time.monotonic() + timeout_s
        with self._news:
            while True:
                for command in self.came[after:]:
                    if command.kind in kinds:
                        return command
                left_s = deadline_s - time.monotonic()
                if self.closed or left_s <= 0:
                    return None
                self._news.wait(left_s)

    def counted(self, kind: int) -> int:
        """The number of frames of a type that have come."""
        with self._news:
            return sum(command.kind == kind for command in self.came)

    def ends(self, timeout_s: float = _TIMEOUT_S) -> bool:
        """Whether the other side hangs up."""
        with self._news:
            return self._news.wait_for(lambda: self.closed, timeout_s)

    def open_producer(self, topic: str, producer_id: int = 1, request_id: int = 1) -> bool:
        """Open a producer and say whether the broker has accepted it."""
        answer = self.ask(peer.producer(topic, producer_id, request_id), {PRODUCER_SUCCESS, ERROR})
        return answer is not None and answer.kind == PRODUCER_SUCCESS

    def open_consumer(
        self, topic: str, consumer_id: int = 1, request_id: int = 1, *, durable: bool = True
    ) -> bool:
        """Subscribe and say whether the broker has accepted it."""
        subscription = f"s{time.monotonic_ns()}"
        request = peer.command(
            4,
            (1, topic),
            (2, subscription),
            (3, 1),
            (4, consumer_id),
            (5, request_id),
            (8, durable),
            (13, 1),
        )
        answer = self.ask(request, {SUCCESS, ERROR})
        return answer is not None and answer.kind == SUCCESS

    def publish(
        self, seconds: float, frame: Callable[[int], bytes] | None = None, rate: int = 1000
    ) -> int:
        """Send frames at a rate for some seconds, or until refused; return how many."""
        made = frame or (lambda number: peer.send(1, number, checksum=False))
        began_s = time.monotonic()
        number = 0
        while time.monotonic() - began_s < seconds:
            due = min(int((time.monotonic() - began_s) * rate) + 1, number + 100)
            batch = b"".join(made(each) for each in range(number, due))
            if batch and not self.send(batch):
                break
            number = due
            time.sleep(0.005)
        return number

    def _read(self) -> None:
        pending = bytearray()
        with contextlib.suppress(OSError):
            self._socket.settimeout(None)
            while data := self._socket.recv(1 << 16):
                pending += data
                for frame in split(pending):
                    self._take(frame)
        with self._news:
            self.closed = True
            self._news.notify_all()

    def _take(self, frame: bytes) -> None:
        try:
            command = command_of(frame)
        except Unreadable:
            return
        if command.kind == PING:
            self.send(peer.PONG)
        with self._news:
            self.came.append(command)
            self._news.notify_all()
