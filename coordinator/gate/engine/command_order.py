"""Handlers that keep commands in order while one of them waits to be paid for (storing.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.gate.engine.hold_buffer import HoldBuffer
from coordinator.gate.protocol.contents import NOTHING, STORING, Storing, read_storing
from coordinator.gate.protocol.frames import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    END_TXN,
    UNSUBSCRIBE,
)
from coordinator.gate.protocol.stream import Decision, FrameVerdict, Handler

_ENDING: Final = (CLOSE_PRODUCER, CLOSE_CONSUMER, UNSUBSCRIBE, END_TXN)
"""Commands that store nothing, and end what a held command may open or change."""

_Read = Callable[[bytes, int, int], Storing]
"""Given data and the bounds of a command, tells what it has the broker store."""


def in_order(handlers: Mapping[int, Handler], holding: HoldBuffer) -> dict[int, Handler]:
    """Return the handlers by command type, those that store and those that end being kept in order.

    Args:
        handlers: that decide whether a command passes.
        holding: holds those that pass and are to be paid for first, and those behind them.
    """
    kept = dict(handlers)
    for kind in STORING:
        kept[kind] = _holding(handlers[kind], holding, _reader(kind))
    for kind in _ENDING:
        kept[kind] = _holding(handlers[kind], holding, lambda _data, _start, _end: NOTHING)
    return kept


def _reader(kind: int) -> _Read:
    return lambda data, start, end: read_storing(kind, data, start, end)


def _holding(handler: Handler, holding: HoldBuffer, read: _Read) -> Handler:
    def handle(data: bytes, start: int, body: int, end: int, frame_end: int) -> Decision:
        storing = read(data, body, end)
        if not holding.must_wait(storing):
            return handler(data, start, body, end, frame_end)
        if frame_end > len(data):
            return frame_end
        if not holding.has_room_for_command(frame_end - start):
            return FrameVerdict.STOP
        # Asked once there is room for the command, as its request is known from then on.
        decision = handler(data, start, body, end, frame_end)
        if decision is not FrameVerdict.PASSES:
            return decision
        passes = holding.hold_command(data[start:frame_end], storing)
        return decision if passes else FrameVerdict.TAKEN

    return handle
