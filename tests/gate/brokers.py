"""A broker's dispatcher as far as permits go, a millisecond away, under the clock of a Bench.

Exclusive and Failover (PersistentDispatcherSingleActiveConsumer) read as many entries as there are
permits and send them all, however many messages each has; Shared and Key_Shared
(PersistentDispatcherMultipleConsumers) send an entry only while there are permits left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator.gate.protocol.frames import read_fields
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client

_READ_BATCH = 100


@dataclass
class Dispatcher:
    """The broker's side of one consumer, and a client that gives permits as real ones do.

    Args:
        entries: messages per entry of the backlog; taken from the front.
        size: bytes of content of an entry.
        queue: the client's receiver queue; it gives half of it at a time.
        read_ms: how long the broker takes to read entries from its store; one read at a time.
        subscription: whose consumer it is.
    """

    client: Client
    entries: list[int]
    size: int = 50
    shared: bool = False
    queue: int = 1000
    consumer_id: int = 1
    permits: int = 0
    read_ms: int = 0
    subscription: str = "s"
    #: Messages that reached the client, by millisecond.
    received: list[int] = field(default_factory=list)
    #: Messages per entry that was sent and has not reached the client.
    under_way: deque[int] = field(default_factory=deque)
    _unreported: int = 0
    #: Entries that are being read, and for how long that still takes.
    _reading: int = 0
    _read_left_ms: int = 0

    def begin(self, topic: str) -> None:
        """Subscribe and give the first permits."""
        subscribe = peer.subscribe(
            topic, self.consumer_id, self.consumer_id, self.subscription, int(self.shared)
        )
        self.client.sends(subscribe)
        self.client.is_sent(peer.success(self.consumer_id))
        self.takes(self.client.sends(peer.flow(self.consumer_id, self.queue)))

    def takes(self, frames: Sequence[bytes]) -> None:
        """The broker receives frames; FLOWs of this consumer count."""
        for frame in frames:
            if peer.kind_of(frame) == 11:
                command = read_fields(frame, 8, len(frame))[11]
                assert isinstance(command, bytes)
                fields = read_fields(command, 0, len(command))
                permits = fields[2]
                assert isinstance(permits, int)
                if fields[1] == self.consumer_id:
                    self.permits += permits

    def works(self) -> None:
        """One millisecond: send what the permits allow."""
        self.received.append(0)
        budget = self._read()
        while self.entries and budget and (not self.shared or self.permits > 0):
            budget -= 1
            count = self.entries.pop(0)
            self.permits -= count
            self.under_way.append(count)
            self.client.is_sent_on(peer.delivery(self.consumer_id, count, b"y" * self.size))

    def gets(self) -> None:
        """The next entry reaches the client, which consumes it at once."""
        messages = self.under_way.popleft()
        self.received[-1] += messages
        self._unreported += messages
        if self._unreported >= self.queue // 2:
            given, self._unreported = self._unreported, 0
            self.client.sends_on(peer.flow(self.consumer_id, given))

    def _read(self) -> int:
        """Count the entries read so far; the end of one read starts the next."""
        if self._read_left_ms > 1:
            self._read_left_ms -= 1
            return 0
        done, self._reading = self._reading, min(max(0, self.permits), _READ_BATCH)
        self._read_left_ms = self.read_ms
        return done if self.read_ms else self._reading


def run(
    bench: Bench,
    dispatchers: Sequence[Dispatcher],
    milliseconds: int,
    each: Callable[[int], None] = lambda _: None,
) -> None:
    """Let all dispatchers and clients work, millisecond by millisecond."""
    for millisecond in range(milliseconds):
        each(millisecond)
        for dispatcher in dispatchers:
            dispatcher.works()
        hand_out(dispatchers)
        bench.wait(1)
        hand_out(dispatchers)
        for client in dict.fromkeys(dispatcher.client for dispatcher in dispatchers):
            frames = client.broker_got()
            for dispatcher in dispatchers:
                if dispatcher.client is client:
                    dispatcher.takes(frames)


def hand_out(dispatchers: Sequence[Dispatcher]) -> None:
    """Let every client consume what has reached it."""
    of = {(each.client, each.consumer_id): each for each in dispatchers}
    for client in dict.fromkeys(dispatcher.client for dispatcher in dispatchers):
        for frame in client.client_got():
            if peer.kind_of(frame) == 9:
                of[client, consumer_of(frame)].gets()


def consumer_of(frame: bytes) -> int:
    """The consumer that a MESSAGE is for."""
    command = read_fields(frame, 8, 8 + int.from_bytes(frame[4:8]))[9]
    assert isinstance(command, bytes)
    found = read_fields(command, 0, len(command))[1]
    assert isinstance(found, int)
    return found


def begin(
    bench: Bench,
    count: int,
    entries: Sequence[int],
    *,
    shared: bool = False,
    size: int = 50,
    queue: int = 1000,
    topic: str = TOPIC,
    read_ms: int = 0,
) -> list[Dispatcher]:
    """Subscribe consumers, each on a connection of its own and with this backlog."""
    dispatchers = [
        Dispatcher(
            bench.client(), list(entries), size=size, shared=shared, queue=queue, read_ms=read_ms
        )
        for _ in range(count)
    ]
    for dispatcher in dispatchers:
        dispatcher.begin(topic)
    return dispatchers


def seconds(dispatchers: Sequence[Dispatcher]) -> list[int]:
    """Messages of all, by second."""
    total = [sum(column) for column in zip(*(d.received for d in dispatchers), strict=True)]
    return [sum(total[start : start + 1000]) for start in range(0, len(total), 1000)]
