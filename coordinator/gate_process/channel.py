"""Messages between the coordinator and its gate, in order, over a pair of connected sockets.

What passes are the core's own words, pickled: both ends are the same release, started by one another, and
nobody else can reach the sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from coordinator.core.model import Traffic

BUFFER_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait for the other end; a catalogue of 5,000 groups with its attachments takes 1 MB."""

_LENGTH: Final = struct.Struct("!I")


class ChannelFull(Exception):
    """The other end takes nothing any more, and too much waits for it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A method of the gate, and what it is given.

    Args:
        name: of the method.
        positional: its arguments in order.
        named: its arguments by name.
        number: of the question; None when nobody waits for an answer.
    """

    name: str
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returned or raised.

    Args:
        number: of the question.
        value: what was returned.
        error: what was raised instead.
    """

    number: int
    value: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """What the gate counted after a quiet time, unasked.

    Args:
        traffic: as `TrafficGate.collect` has it.
    """

    traffic: tuple[Traffic, ...]


class Channel:
    """One end.

    Args:
        reader: what the other end sends.
        writer: what goes there.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """Use a connected socket, which is closed with the channel."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: object) -> None:
        """Hand over a message; when the other end is gone, `receive` says so and not this.

        Raises:
            ChannelFull: more than `BUFFER_BYTES_MAX` wait.
        """
        if self._writer.is_closing():
            return
        waiting = self._writer.transport.get_write_buffer_size()
        if waiting > BUFFER_BYTES_MAX:
            raise ChannelFull(f"{waiting} bytes wait for the other process")
        pickled = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._writer.write(_LENGTH.pack(len(pickled)) + pickled)

    async def receive(self) -> Any:
        """The next message.

        Raises:
            EOFError: the other end is gone.
        """
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return pickle.loads(await self._reader.readexactly(length))  # noqa: S301 - our own
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise EOFError("the other process is gone") from error

    async def close(self) -> None:
        """Send no more, and let go of the socket."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
