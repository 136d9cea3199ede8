"""A stand-in for Pulsar's client library, and the coordinator's end of the process around it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import pulsar

from coordinator.adapters.pulsar.client.frames import (
    ClientSettings,
    Frame,
    TopicState,
    encode,
)
from coordinator.adapters.pulsar.client.handle import receive
from coordinator.adapters.pulsar.client.process import serve


class Half:
    """A producer, or a reader; sends are taken at once."""

    def is_connected(self) -> bool:
        """It always is."""
        return True

    def send_async(self, _: bytes, sent: Callable[[Any, Any], None], **__: Any) -> None:
        """Say that a broker took it."""
        sent(pulsar.Result.Ok, None)

    def close(self) -> None:
        """Nothing is open."""


class Library:
    """A client of Pulsar whose first producers fail with these errors."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.hear: Callable[[Any, Any], None] = lambda *_: None
        self.opened = threading.Event()

    def create_producer(self, *_: Any, **__: Any) -> Half:
        """Make one, or fail."""
        if self._errors:
            raise self._errors.pop()
        return Half()

    def create_reader(
        self, *_: Any, reader_listener: Callable[[Any, Any], None], **__: Any
    ) -> Half:
        """Make one."""
        self.hear = reader_listener
        self.opened.set()
        return Half()


class Message:
    """A message of a broker, whose names are bytes as they came."""

    def __init__(self, payload: bytes, producer: bytes = b"p", key: bytes = b"key") -> None:
        self._payload = payload
        self._producer = producer
        self._key = key

    def data(self) -> bytes:
        """Its payload."""
        return self._payload

    def properties(self) -> dict[str, str]:
        """As pulsar-client gives them: as text, or not at all."""
        return {self._key.decode(): ""}

    def producer_name(self) -> str:
        """Given likewise."""
        return self._producer.decode()

    def publish_timestamp(self) -> int:
        """Milliseconds of the epoch."""
        return 0


class Coordinator:
    """The coordinator's end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """Take this end."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, frame: Frame) -> None:
        """Write a frame."""
        self._writer.write(encode(frame))

    def finish(self) -> None:
        """Write no more."""
        self._writer.write_eof()

    async def close(self) -> None:
        """Leave."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def next(self) -> Frame | None:
        """Wait for a frame that states no topic; None is the end."""
        while isinstance(frame := await receive(self._reader), TopicState):
            pass
        return frame

    async def state(self) -> TopicState:
        """Wait for the state of a topic."""
        while not isinstance(frame := await receive(self._reader), TopicState):
            assert frame is not None, "the process ended"
        return frame


@asynccontextmanager
async def client_of(
    library: Library, topics: tuple[str, ...] = ("topic",)
) -> AsyncIterator[tuple[Coordinator, asyncio.Task[None]]]:
    """Yield the coordinator's end of a client over this library, and the client's task."""
    end, its_end = socket.socketpair()
    coordinator = await Coordinator.over(end)
    serving = asyncio.create_task(asyncio.to_thread(serve, its_end, lambda _: library))
    coordinator.send(ClientSettings("pulsar://b:6650", list(topics)))
    try:
        yield coordinator, serving
    finally:
        await coordinator.close()
        await asyncio.wait({serving})
