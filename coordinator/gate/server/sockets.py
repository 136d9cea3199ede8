"""Options of the gate's TCP sockets, and the progress of their peers.

A peer that is gone without notice (a machine that lost its power, a network that lost its route) is
noticed by TCP: probes on a silent connection, and a bound on how long sent bytes may stay unacknowledged.

Whether a peer takes bytes is read from the socket: the bytes that the peer has acknowledged. The size of
the write buffer says less, since TLS moves bytes between several of them; it serves where the system does
not count acknowledged bytes.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Final, NamedTuple

KEEP_ALIVE_IDLE_S: Final = 60
KEEP_ALIVE_INTERVAL_S: Final = 10
KEEP_ALIVE_PROBES: Final = 3
"""A peer that is gone is noticed after 90 s, where the system has no TCP_USER_TIMEOUT."""

_OPTIONS: Final = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", KEEP_ALIVE_IDLE_S),
    ("TCP_KEEPINTVL", KEEP_ALIVE_INTERVAL_S),
    ("TCP_KEEPCNT", KEEP_ALIVE_PROBES),
)
"""Options by name, since not every system has all of them."""

_ACKED_OFFSET: Final = 120
"""Offset of tcpi_bytes_acked in Linux's struct tcp_info."""

_read_acked: Final = struct.Struct("=Q").unpack_from


class SendProgress(NamedTuple):
    """The progress of a peer with the bytes sent to it.

    Args:
        acknowledged: bytes that its machine has acknowledged; 0 where that is not counted.
        unsent: bytes in the write buffer.
    """

    acknowledged: int
    unsent: int

    def is_beyond(self, before: SendProgress) -> bool:
        """Return whether the peer took bytes since an earlier progress."""
        return self.acknowledged > before.acknowledged or self.unsent < before.unsent


NOTHING_TAKEN: Final = SendProgress(0, 0)


def prepare(transport: asyncio.Transport, write_buffer_high: int, silent_s: float) -> None:
    """Set the options that every connection of the gate has.

    Args:
        transport: the connection.
        write_buffer_high: unwritten bytes above which it is reported as slow.
        silent_s: time for which its peer may acknowledge nothing.
    """
    transport.set_write_buffer_limits(high=write_buffer_high)
    connected = transport.get_extra_info("socket")
    with suppress(OSError):  # the peer may be gone already
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (*_OPTIONS, ("TCP_USER_TIMEOUT", round(silent_s * 1000))):
            option = getattr(socket, name, None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)


def taken(transport: asyncio.Transport | None) -> SendProgress:
    """Return the progress of a connection's peer."""
    if transport is None:
        return NOTHING_TAKEN
    info = b""
    # Of a socket that is closed, uvloop has no descriptor left: a ValueError.
    with suppress(OSError, AttributeError, ValueError):
        connected = transport.get_extra_info("socket")
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED_OFFSET + 8)
    acknowledged = _read_acked(info, _ACKED_OFFSET)[0] if len(info) == _ACKED_OFFSET + 8 else 0
    return SendProgress(acknowledged, transport.get_write_buffer_size())
