"""Compare a broker's state after the frames that reach it with the gate's belief about it.

The broker here is told in a few lines: it opens and closes what it is asked to, keeps the first of two
that have one id, and counts what is published (ServerCnx of 4.2.4). It goes by what Pulsar's decoder
read, so where the gate believes something else it has read something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Final

from coordinator.core.model import MonitoringClass
from tests.decoder.judge import Fields, Reading
from tests.decoder.wire import SEND
from tests.gate import peer
from tests.gate.conftest import Bench, Client

SUBSCRIBE: Final = 4
PRODUCER: Final = 5
FLOW: Final = 11
UNSUBSCRIBE: Final = 12
CLOSE_PRODUCER: Final = 15
CLOSE_CONSUMER: Final = 16

_SHARED: Final = ("Shared", "Key_Shared")
_MESSAGE_SIZE_MIN: Final = 6
"""The smallest message of a batch: a size of 4 bytes, and metadata of 2 which tell the payload's."""

_RATIO_MAX: Final = {"LZ4": 255, "ZLIB": 1032, "ZSTD": 14_564, "SNAPPY": 22}
"""The most bytes that one byte can become, by the name of its compression."""


@dataclass(slots=True)
class Belief:
    """The participants of a connection, and the messages published and dispatched on it.

    Args:
        producers: id to topic.
        consumers: id to topic, subscription, and whether it is shared.
        unanswered: id of a producer to SENDs that reached the broker.
        permits: id of a consumer to permits that the broker has.
        messages: how many were published.
        size: bytes that were published.
        delayed: how many of the messages have a time of delivery.
    """

    producers: dict[int, str] = field(default_factory=dict)
    consumers: dict[int, tuple[str, str, bool]] = field(default_factory=dict)
    unanswered: dict[int, int] = field(default_factory=dict)
    permits: dict[int, int] = field(default_factory=dict)
    messages: int = 0
    size: int = 0
    delayed: int = 0


def of_gate(bench: Bench, client: Client) -> Belief:
    """Return the gate's belief."""
    participants = client.session._participants
    producers, consumers = participants.producers, participants.consumers
    belief = Belief(
        producers={number: each.topic for number, each in producers.items()},
        consumers={
            number: (each.topic, each.subscription, each.shared)
            for number, each in consumers.items()
        },
        unanswered={n: each.unanswered for n, each in producers.items() if each.unanswered},
        permits={number: each.permits + each.withheld for number, each in consumers.items()},
    )
    published = ("tenant/ns", MonitoringClass.PUBLISH)
    # Of messages alone: schemas and markers count against the group as well.
    belief.messages, belief.size = bench.groups.passed_totals().get(published, (0, 0))
    if bench.groups.delayed is not None:
        belief.delayed = bench.groups.delayed.view({}).messages
    return belief


def unlike(one: Belief, other: Belief) -> Iterator[tuple[str, object, object]]:
    """Yield each difference of two beliefs: its name and both values."""
    for each in fields(Belief):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        if mine != theirs:
            yield each.name, mine, theirs


class Broker:
    """A broker, as far as a gate has to know it.

    Args:
        counts_delayed: whether messages with a time of delivery are counted apart.
    """

    def __init__(self, *, counts_delayed: bool) -> None:
        self.belief = Belief()
        #: Producers that take what is published until their close is answered, and what is opened in
        #: their place.
        self._closing: dict[int, str | None] = {}
        self._counts_delayed = counts_delayed
        self._handlers: dict[int, Callable[[Fields], bytes]] = {
            PRODUCER: self._open_producer,
            SUBSCRIBE: self._open_consumer,
            FLOW: self._flow,
            UNSUBSCRIBE: self._close_consumer,
            CLOSE_PRODUCER: self._close_producer,
            CLOSE_CONSUMER: self._close_consumer,
        }

    def receives(self, frame: bytes, reading: Reading) -> bytes:
        """Take in a frame; return the answer to it, which is empty for most."""
        command = reading.command
        assert command is not None
        if reading.kind == SEND:
            self._publish(frame, reading, command)
        handle = self._handlers.get(reading.kind)
        return b"" if handle is None else handle(command)

    def ends_closing(self) -> None:
        """End the producers that are closing, and open those that took their ids."""
        for number, topic in self._closing.items():
            self.belief.producers.pop(number, None)
            self.belief.unanswered.pop(number, None)
            if topic is not None:
                self.belief.producers[number] = topic

    def _open_producer(self, command: Fields) -> bytes:
        number = _unsigned(command["producerid"])
        if number in self._closing:
            self._closing[number] = command["topic"]
        self.belief.producers.setdefault(number, command["topic"])
        return peer.producer_success(_unsigned(command["requestid"]))

    def _open_consumer(self, command: Fields) -> bytes:
        number = _unsigned(command["consumerid"])
        shared = command["subtype"] in _SHARED
        opened = (command["topic"], command["subscription"], shared)
        self.belief.consumers.setdefault(number, opened)
        self.belief.permits.setdefault(number, 0)
        return peer.success(_unsigned(command["requestid"]))

    def _close_producer(self, command: Fields) -> bytes:
        number = _unsigned(command["producerid"])
        is_there = number in self.belief.producers
        if is_there:
            self._closing[number] = None
        return _answer(command, succeeded=is_there)

    def _close_consumer(self, command: Fields) -> bytes:
        number = _unsigned(command["consumerid"])
        is_there = self.belief.consumers.pop(number, None) is not None
        self.belief.permits.pop(number, None)
        return _answer(command, succeeded=is_there)

    def _flow(self, command: Fields) -> bytes:
        number = _unsigned(command["consumerid"])
        if number in self.belief.permits:
            self.belief.permits[number] += command["messagepermits"]
        return b""

    def _publish(self, frame: bytes, reading: Reading, command: Fields) -> None:
        number = _unsigned(command["producerid"])
        if number not in self.belief.producers:
            return
        metadata = reading.metadata or {}
        size = len(frame) - reading.end
        messages = messages_of(frame, reading)
        self.belief.unanswered[number] = self.belief.unanswered.get(number, 0) + 1
        self.belief.messages += messages
        self.belief.size += size
        if self._counts_delayed and "deliverattime" in metadata:
            self.belief.delayed += messages


def _answer(command: Fields, *, succeeded: bool) -> bytes:
    request_id = _unsigned(command["requestid"])
    return peer.success(request_id) if succeeded else peer.error(request_id)


def messages_of(frame: bytes, reading: Reading) -> int:
    """Return the messages that are paid for: the larger claim, up to the content's capacity."""
    command, metadata = reading.command or {}, reading.metadata or {}
    claimed: int = max(1, command.get("nummessages", 1), metadata.get("nummessagesinbatch", 1))
    content = len(frame) - reading.metadata_end
    ratio_max = _RATIO_MAX.get(metadata.get("compression", "NONE"))
    if ratio_max is not None:
        uncompressed: int = metadata.get("uncompressedsize", 0) % 2**32
        content = max(content, min(uncompressed, content * ratio_max))
    return min(claimed, max(1, content // _MESSAGE_SIZE_MIN))


def _unsigned(value: int) -> int:
    return value % 2**64
