"""Messages between the coordinator and its gate, in order, over a pair of connected sockets.

Messages are pickled objects of the core: both ends are the same release, one starts the other, and no
other process can reach the sockets. The messages themselves are tuples, which Python pickles fastest:
they are all the work of an idle sidecar.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self, cast

BUFFER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bound of the bytes that wait for the other end; 5,000 groups with attachments take 1 MB."""

_LAST_WORDS_S: Final = 1.0
_LENGTH: Final = struct.Struct("!I")
_NOTHING_NAMED: Final[Mapping[str, Any]] = {}


class ChannelFull(Exception):
    """The other end reads no more, and too many bytes wait for it."""


class Call(NamedTuple):
    """A call of one of the gate's methods.

    Args:
        name: name of the method.
        positional: its arguments in order.
        named: its arguments by name.
        number: number of the question; None if no answer is expected.
    """

    name: str
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = _NOTHING_NAMED
    number: int | None = None


class Answer(NamedTuple):
    """The result of a call.

    Args:
        number: number of the question.
        value: the value returned.
        error: the exception raised instead.
    """

    number: int
    value: Any = None
    error: Exception | None = None


class TrafficResumed(NamedTuple):
    """Traffic passed or waits after a quiet time: see `TrafficGate.watch_traffic`."""


def receive_now(end: socket.socket) -> Any:
    """Return the first message of a socket that has no channel yet; block until it is there.

    Raises:
        EOFError: the other end is gone.
    """
    return pickle.loads(_exactly(end, *_LENGTH.unpack(_exactly(end, _LENGTH.size))))  # noqa: S301


def _exactly(end: socket.socket, size: int) -> bytes:
    received = end.recv(size, socket.MSG_WAITALL)
    if len(received) < size:
        raise EOFError("the other process is gone")
    return received


class Channel(asyncio.Protocol):
    """One end of the channel; made by `over`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._received: Callable[[Any], None] | None = None
        self._buffer = bytearray()
        self._ended = asyncio.Event()
        self._failure: Exception = EOFError("the other process is gone")

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """Use a connected socket, which is closed with the channel."""
        _, channel = await asyncio.get_running_loop().create_unix_connection(cls, sock=end)
        return channel

    def listen(self, received: Callable[[Any], None]) -> None:
        """Call this with every message, in order, including those received before.

        An exception of the call ends the channel, and `ended` raises it.
        """
        self._received = received
        self._hand_over(received)

    def send(self, message: object) -> None:
        """Send a message; if the other end is gone, `ended` says so and not this method.

        Raises:
            ChannelFull: more than `BUFFER_BYTES_MAX` wait.
        """
        if self._transport.is_closing():
            return
        waiting = self._transport.get_write_buffer_size()
        if waiting > BUFFER_BYTES_MAX:
            raise ChannelFull(f"{waiting} bytes wait for the other process")
        pickled = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._transport.write(_LENGTH.pack(len(pickled)) + pickled)

    async def ended(self) -> None:
        """Wait until no message can come any more.

        Raises:
            EOFError: the other end is gone.
            Exception: a message was not understood: the exception raised for it.
        """
        await self._ended.wait()
        raise self._failure

    async def close(self) -> None:
        """Send what waits, if the other end reads it soon, and close the socket."""
        self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._ended.wait()
        self._transport.abort()

    # Calls of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._buffer += data
        if self._received is not None:
            self._hand_over(self._received)

    def connection_lost(self, _: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._ended.set()

    def _hand_over(self, received: Callable[[Any], None]) -> None:
        try:
            while (message := self._next()) is not None:
                received(message)
        except Exception as error:  # noqa: BLE001 - told by `ended`
            self._failure = error
            self._transport.close()

    def _next(self) -> Any:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        pickled = self._buffer[_LENGTH.size : end]
        del self._buffer[:end]
        return pickle.loads(pickled)  # noqa: S301 - our own
