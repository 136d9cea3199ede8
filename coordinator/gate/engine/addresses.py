"""Let a broker name gates to its clients, and no address that leads round them.

Every address in a broker's frame is looked up in the map of the cluster (coordinator/core/addresses.py).
Frames that name gates only pass untouched, as nearly all do. In the others a gate's address takes the
place of an internal one. What becomes of an address that leads to no gate depends on the frame:

=========================== ===========================================================================
LOOKUP_RESPONSE             fails with ServiceNotReady if no address is left or one is of no broker here:
                            the client asks again
CLOSE_PRODUCER, _CONSUMER   goes without it: the client looks its topic up
SCALABLE_TOPIC_UPDATE       goes without that segment's broker, or that controller
WATCH_TC_ASSIGNMENTS_UPDATE goes without it
TOPIC_MIGRATED              names another cluster, which the operator has chosen: it passes and is logged,
                            unless it is an address of this cluster's brokers
=========================== ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coordinator.core.addresses import NO_GATE, AddressMap
from coordinator.gate.protocol import commands
from coordinator.gate.protocol.addresses import PLACES, Rewriting
from coordinator.gate.protocol.frames import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    LOOKUP_RESPONSE,
    SCALABLE_TOPIC_UPDATE,
    TOPIC_MIGRATED,
    WATCH_TC_ASSIGNMENTS_UPDATE,
)
from coordinator.gate.protocol.own_frames import (
    SERVICE_NOT_READY,
    command_frame,
    lookup_failed_frame,
)
from coordinator.gate.protocol.refusals import RefusalReason, Refusals
from coordinator.gate.protocol.stream import Decision, FrameVerdict, Handler

_NAMES: Final = {
    LOOKUP_RESPONSE: "LOOKUP_RESPONSE",
    CLOSE_PRODUCER: "CLOSE_PRODUCER",
    CLOSE_CONSUMER: "CLOSE_CONSUMER",
    TOPIC_MIGRATED: "TOPIC_MIGRATED",
    SCALABLE_TOPIC_UPDATE: "SCALABLE_TOPIC_UPDATE",
    WATCH_TC_ASSIGNMENTS_UPDATE: "WATCH_TC_ASSIGNMENTS_UPDATE",
}
_NO_GATE_THERE: Final = (
    "its broker has no gate there; add the gates' listener to that broker's advertisedListeners"
)
_TRY_AGAIN: Final = "The topic's broker has no known gate; try again."
_REQUEST_ID_OF_LOOKUP: Final = 4


@dataclass(slots=True)
class AddressBook:
    """The map that all connections of a gate use.

    Args:
        map: the map in force.
    """

    map: AddressMap


class BrokerAddresses:
    """Handlers for the frames of a broker that name addresses.

    Args:
        book: the addresses that are known.
        refusals: counts addresses that a client is not told.
        migrated: called with an address of another cluster that a client is told.
    """

    def __init__(
        self, book: AddressBook, refusals: Refusals, migrated: Callable[[str], None]
    ) -> None:
        self._book = book
        self._refusals = refusals
        self._migrated = migrated

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers by command type, of commands that concern no participant."""
        return {
            LOOKUP_RESPONSE: self._on_lookup_response,
            TOPIC_MIGRATED: self._on_topic_migrated,
            SCALABLE_TOPIC_UPDATE: self._on_update(SCALABLE_TOPIC_UPDATE),
            WATCH_TC_ASSIGNMENTS_UPDATE: self._on_update(WATCH_TC_ASSIGNMENTS_UPDATE),
        }

    def without_internal(self, kind: int, data: bytes, body: int, end: int) -> Decision:
        """Let a command pass with the addresses of gates, and without those that lead to none."""
        rewriting = Rewriting(lambda url: self._gate_for(kind, url))
        return self._decided(kind, data, body, end, rewriting)

    def _on_update(self, kind: int) -> Handler:
        def handle(data: bytes, _start: int, body: int, end: int, _frame_end: int) -> Decision:
            return self.without_internal(kind, data, body, end)

        return handle

    def _on_lookup_response(
        self, data: bytes, _start: int, body: int, end: int, _frame_end: int
    ) -> Decision:
        lost: list[str] = []
        foreign: list[str] = []

        def tell(url: str) -> str:
            told = self._book.map.gate_for(url)
            if not told:
                (foreign if told is None else lost).append(url)
            return told or NO_GATE

        rewriting = Rewriting(tell)
        decision = self._decided(LOOKUP_RESPONSE, data, body, end, rewriting)
        if not foreign and (rewriting.told or not lost):
            return decision
        self._refused(LOOKUP_RESPONSE, (foreign or lost)[0], is_known=not foreign)
        request_id = commands.read_number(data, body, end, _REQUEST_ID_OF_LOOKUP)
        return lookup_failed_frame(request_id, SERVICE_NOT_READY, _TRY_AGAIN)

    def _on_topic_migrated(
        self, data: bytes, _start: int, body: int, end: int, _frame_end: int
    ) -> Decision:
        def tell(url: str) -> str:
            told = self._book.map.gate_for(url)
            if told is None:
                self._migrated(url)
                return url
            return told or self._refused(TOPIC_MIGRATED, url, is_known=True)

        return self._decided(TOPIC_MIGRATED, data, body, end, Rewriting(tell))

    def _gate_for(self, kind: int, url: str) -> str:
        told = self._book.map.gate_for(url)
        return told or self._refused(kind, url, is_known=told is not None)

    def _refused(self, kind: int, url: str, *, is_known: bool) -> str:
        """Count an address that a client is not told."""
        self._refusals.count(
            RefusalReason.ADDRESS,
            f"{_NAMES[kind]} names {url}: "
            + (_NO_GATE_THERE if is_known else "no registered broker has this address"),
        )
        return NO_GATE

    def _decided(
        self, kind: int, data: bytes, body: int, end: int, rewriting: Rewriting
    ) -> Decision:
        written = rewriting.message(data, body, end, PLACES[kind])
        assert written is not None  # a command requires no address
        return FrameVerdict.PASSES if written == data[body:end] else command_frame(kind, written)
