"""Signs of life on one connection: PING and PONG of both sides.

Each side sends a PING now and then and considers the other dead when no PONG comes: stock clients and
brokers ask every 30 seconds. A broker answers PINGs on a thread that serves many other connections. So
the gate bounds the PINGs of a client and drops PONGs that answer no PING: millions of either kept a
neighbour of the same gate from publishing for 30 seconds.

While the client is not read, its PONGs are stuck. The gate then answers the broker's PINGs in its place,
and the client's own PONG follows later; the broker accepts both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.protocol.frames import (
    PING,
    PONG,
    PONG_FRAME,
    FrameFault,
    MalformedFrame,
    read_message,
)
from coordinator.gate.protocol.schema import SIGN_OF_LIFE
from coordinator.gate.protocol.stream import Decision, FrameVerdict, Handler

PINGS_MAX: Final = 100
"""PINGs of a client that may wait for a PONG. A stock client sends the second when the first is
answered, or closes the connection."""


class KeepAlive:
    """Handlers for PING and PONG.

    Args:
        counters: counts the PONGs that the gate sends itself.
        is_paused: whether the client is not read.
        send: takes a frame for the broker, to be sent between two others.
        answer: the same for the client.
    """

    def __init__(
        self,
        counters: GateCounters,
        *,
        is_paused: Callable[[], bool],
        send: Callable[[bytes], None],
        answer: Callable[[bytes], None],
    ) -> None:
        self._counters = counters
        self._is_paused = is_paused
        self._send = send
        self._answer = answer
        #: PINGs that passed to the broker and to the client and have no PONG yet.
        self._asked_broker = self._asked_client = 0

    def client_handlers(self) -> dict[int, Handler]:
        """Return the handlers of the client's frames, by command type."""
        return {PING: self._on_client_ping, PONG: self._on_client_pong}

    def broker_handlers(self) -> dict[int, Handler]:
        """Return the handlers of the broker's frames, by command type."""
        return {PING: self._on_broker_ping, PONG: self._on_broker_pong}

    def reassure(self, *, broker: bool) -> None:
        """Send the client a sign of life, as its own PINGs may be stuck behind a pause.

        Args:
            broker: send one to the broker as well: it is not read either, so its PINGs are stuck, too,
                and it would consider the client dead.
        """
        self._answer(PONG_FRAME)
        self._counters.keep_alive_replies += 1
        if broker:
            self._send(PONG_FRAME)

    def _on_client_ping(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        read_message(data, body, command_end, SIGN_OF_LIFE)
        if self._asked_broker >= PINGS_MAX:
            raise MalformedFrame(FrameFault.REQUESTS, f"more than {PINGS_MAX} PINGs")
        self._asked_broker += 1
        return FrameVerdict.PASSES

    def _on_client_pong(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        read_message(data, body, command_end, SIGN_OF_LIFE)
        if not self._asked_client:
            return FrameVerdict.DISCARD
        self._asked_client -= 1
        return FrameVerdict.PASSES

    def _on_broker_ping(
        self, _data: bytes, _start: int, _body: int, _command_end: int, _frame_end: int
    ) -> Decision:
        self._asked_client += 1
        if self._is_paused():
            self._send(PONG_FRAME)
            self._counters.keep_alive_replies += 1
        return FrameVerdict.PASSES

    def _on_broker_pong(
        self, _data: bytes, _start: int, _body: int, _command_end: int, _frame_end: int
    ) -> Decision:
        self._asked_broker = max(0, self._asked_broker - 1)
        return FrameVerdict.PASSES
