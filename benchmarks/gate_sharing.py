"""Producers of one connection: what it costs the others when one of them is throttled.

A Pulsar client has one connection to a broker, and Pulsar's own limits stop all of it; the gate holds
back the producer that is over its limit alone. Measured is how fast a *free* producer publishes beside a
neighbour that offers more than it may, all the time, as a part of how fast it is beside one that sends
just as many messages as pass of the other's, in the same rhythm, and waits for nothing: work for the
machine is the same in both. Turns of the two alternate, on the same connection to the same real broker,
and the figure is the median over rounds, because what else runs on a machine comes and goes. Processor
time is disturbed least by that: another figure is what the gate takes more for a message that it holds.

Three producers are on the connection, therefore, of which two are busy. The same client is put on a
connection to the broker itself, where the throttled producer's namespace has the broker's own limit. What
is left of the free one there is as many publishes for each of the other's as its window is larger.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import uvloop

from benchmarks.figures import Figure, Measurement
from benchmarks.gate_load import Puppet
from benchmarks.gate_process import HELD_RATE, TENANT, Process, running
from benchmarks.one_broker import one_broker
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.limits.metering import PAUSE_NS
from coordinator.gate.protocol.commands import read_first_id
from coordinator.gate.protocol.frames import (
    CONNECTED,
    PING,
    PRODUCER_SUCCESS,
    SEND_RECEIPT,
    read_head,
    read_sizes,
)
from deploy.local.topics import Topics
from tests.gate import peer

ROUNDS: Final = 60
SECONDS: Final = 0.5

_FREE_WINDOW: Final = 500
_NEIGHBOUR_WINDOW: Final = 200
"""More than passes in a tenth of a second; with the free one's less than the 1,000 a broker takes."""
_ENOUGH: Final = 100
_WARMING_S: Final = 5.0
_CONTENT_BYTES: Final = 100
_SETTLING_S: Final = 0.3
_SLICE_S: Final = PAUSE_NS / NANOS_PER_SECOND
"""The gate lets held messages go in this rhythm, and so it is that of those that are not held."""
_TIMEOUT_S: Final = 60.0
_THROTTLED: Final = {"gate": "held", "broker": "stopped"}
"""The throttled producer's namespace: one that the gate limits, and one that the broker limits."""


@dataclass(frozen=True, slots=True)
class ProducerTurn:
    """A producer's experience of a turn.

    Args:
        rate: its receipts per second.
        processor: part of a processor that the process between took meanwhile, 0 to 1; 0 without one.
    """

    rate: float
    processor: float = 0.0


class SharingProducer:
    """One of a connection's producers.

    Args:
        number: on its connection.
        topic: where it publishes.
    """

    def __init__(self, number: int, topic: str) -> None:
        self.introduction = peer.producer(topic, number, number)
        # A real broker looks at a checksum if there is one.
        self._frame = peer.send(number, content=bytes(_CONTENT_BYTES), checksum=False)
        self._since_s = time.monotonic()
        self.window = 0
        #: Publishes without a receipt yet, and receipts since the last ``take``.
        self.under_way = self.answered = 0

    def frames(self, most: int) -> bytes:
        """Return `most` publishes, or fewer if its window has no room for them."""
        count = max(0, min(most, self.window - self.under_way))
        self.under_way += count
        return self._frame * count

    def is_answered(self) -> None:
        """A receipt has come."""
        self.under_way -= 1
        self.answered += 1

    def take(self) -> ProducerTurn:
        """Return its experience since the last call."""
        answered, self.answered = self.answered, 0
        since_s, self._since_s = self._since_s, time.monotonic()
        return ProducerTurn(answered / (self._since_s - since_s))


class SharedConnection:
    """A client with a free producer, one that is throttled and one that is not, on one connection.

    Args:
        free: its topic, and those of the others.
        processor_s: tells the processor time of the process between, in seconds.
    """

    def __init__(
        self, free: str, throttled: str, paced: str, *, processor_s: Callable[[], float]
    ) -> None:
        self.free, self.throttled = SharingProducer(1, free), SharingProducer(2, throttled)
        self._paced = SharingProducer(3, paced)
        self._processor_s = processor_s
        self._producers = {1: self.free, 2: self.throttled, 3: self._paced}
        self._unread = b""
        self._opened = 0
        self._is_open, self._nothing_under_way = asyncio.Event(), asyncio.Event()
        self._refusals: list[int] = []
        self.puppet = Puppet(self._received, lambda: self.puppet.write(peer.connect()))

    async def open(self, port: int) -> None:
        """Connect, and open the producers."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self.puppet, "127.0.0.1", port)
        async with asyncio.timeout(_TIMEOUT_S):
            await self._is_open.wait()

    async def turn(self, seconds: float, *, throttled: bool) -> tuple[ProducerTurn, ProducerTurn]:
        """Run both producers for a time, or until it suffices to judge by; return the free one first.

        Raises:
            RuntimeError: the connection was closed, or something refused.
        """
        neighbour = self.throttled if throttled else self._paced
        self.free.window, neighbour.window = _FREE_WINDOW, _NEIGHBOUR_WINDOW
        pacing = None if throttled else asyncio.create_task(self._pace())
        self._publish()
        await asyncio.sleep(_SETTLING_S)
        for producer in (self.free, neighbour):
            producer.take()
        began_s, before_s = time.monotonic(), self._processor_s()
        async with asyncio.timeout(_TIMEOUT_S):
            enough = False
            while not enough:
                await asyncio.sleep(seconds)
                self._check()
                enough = self.free.answered >= _ENOUGH
        processor = (self._processor_s() - before_s) / (time.monotonic() - began_s)
        turns = replace(self.free.take(), processor=processor), neighbour.take()
        if pacing is not None:
            pacing.cancel()
        self.free.window = neighbour.window = 0
        self._nothing_under_way.clear()
        async with asyncio.timeout(_TIMEOUT_S):
            await self._nothing_under_way.wait()
        return turns

    def _check(self) -> None:
        if self.puppet.closed.is_set():
            raise RuntimeError("the connection was closed")
        if self._refusals:
            raise RuntimeError(f"publishes were answered with command types {set(self._refusals)}")

    async def _pace(self) -> None:
        started, due = time.monotonic(), 0
        while True:
            await asyncio.sleep(_SLICE_S)
            count = int((time.monotonic() - started) * HELD_RATE) - due
            self.puppet.write(self._paced.frames(count))
            due += count

    def _publish(self) -> None:
        for producer in (self.free, self.throttled):
            self.puppet.write(producer.frames(producer.window))

    def _received(self, data: bytes) -> None:
        stream, position = self._unread + data, 0
        while len(stream) - position >= 8:
            total, command = read_sizes(stream, position)
            if len(stream) - position < 4 + total:
                break
            start = position + 8
            if stream[start + 1] == SEND_RECEIPT:
                number = read_first_id(
                    stream, read_head(stream, start, start + command)[1], start + command
                )
                self._producers[number].is_answered()
            else:
                self._is_told(stream[start + 1])
            position += 4 + total
        self._unread = stream[position:]
        self._publish()
        if not any(producer.under_way for producer in self._producers.values()):
            self._nothing_under_way.set()

    def _is_told(self, kind: int) -> None:
        if kind == CONNECTED:
            self.puppet.write(b"".join(each.introduction for each in self._producers.values()))
        elif kind == PRODUCER_SUCCESS:
            self._opened += 1
            if self._opened == len(self._producers):
                self._is_open.set()
        elif kind != PING:  # a client that publishes is alive, answer or not
            self._refusals.append(kind)


@dataclass(frozen=True, slots=True)
class Round:
    """The free producer beside a throttled one, and beside one that is not.

    Args:
        beside_throttled: how it fared there.
        beside_paced: and there.
        throttled: how the throttled one fared.
    """

    beside_throttled: ProducerTurn
    beside_paced: ProducerTurn
    throttled: ProducerTurn

    @property
    def held_us(self) -> float:
        """Processor time for a message that is held, beyond one that passes, in microseconds."""
        beside, paced = self.beside_throttled, self.beside_paced
        without = paced.processor * beside.rate / paced.rate
        return (beside.processor - without) / self.throttled.rate * 1e6


async def _round(connection: SharedConnection, *, throttled_first: bool) -> Round:
    turns = {
        throttled: await connection.turn(SECONDS, throttled=throttled)
        for throttled in (throttled_first, not throttled_first)
    }
    (beside_throttled, throttled), (beside_paced, _) = turns[True], turns[False]
    return Round(beside_throttled, beside_paced, throttled)


async def _rounds(
    ports: Mapping[str, int], topics: Topics, gate: Process
) -> dict[str, list[Round]]:
    connections = {name: _connection(topics, name, gate) for name in ports}
    found: dict[str, list[Round]] = {name: [] for name in ports}
    for name, connection in connections.items():
        await connection.open(ports[name])
        await connection.turn(_WARMING_S, throttled=False)  # a broker compiles as it goes
    for number in range(ROUNDS):
        for name, connection in connections.items():
            found[name].append(await _round(connection, throttled_first=number % 2 == 0))
    for connection in connections.values():
        await connection.puppet.close()
    return found


def _connection(topics: Topics, name: str, gate: Process) -> SharedConnection:
    own = (f"limited/{name}-free", f"{_THROTTLED[name]}/throttled", f"limited/{name}-paced")
    full = [f"persistent://{TENANT}/{topic}" for topic in own]
    for topic in full:
        topics.create_topic(topic)
        topics.owner(topic)  # which makes the broker take it
    return SharedConnection(*full, processor_s=gate.processor_s)


def figures(rounds: Mapping[str, list[Round]]) -> Iterator[Figure]:
    """The gate's figures, beside those of the broker's own limit."""

    def medians(what: Callable[[Round], float]) -> dict[str, float]:
        return {name: statistics.median(map(what, found)) for name, found in rounds.items()}

    name = "gate/shared-connection"
    peers = medians(lambda each: each.beside_throttled.rate / each.beside_paced.rate)
    ours = peers.pop("gate")
    peers["unthrottled, msg/s"] = medians(lambda each: each.beside_paced.rate)["gate"]
    peers["the throttled one, msg/s"] = medians(lambda each: each.throttled.rate)["gate"]
    yield Figure(f"{name}/rate-of-unthrottled", ours, "", "higher", peers, 0.95)
    held_us = statistics.median(each.held_us for each in rounds["gate"])
    yield Figure(f"{name}/processor-us-per-held-message", held_us, "us", "lower")


def shared_connection() -> Iterator[Figure]:
    """Through the gate, and to the broker itself with its own limit."""
    namespaces = [f"{TENANT}/{name}" for name in ("limited", *_THROTTLED.values())]
    with one_broker(*namespaces, bundles=1) as cluster:
        broker, topics = cluster.brokers[0], Topics(cluster.brokers)
        topics.limit_publishing(f"{TENANT}/{_THROTTLED['broker']}", HELD_RATE)
        with running("gate", broker.gate_port, broker.gate_upstream_port) as gate:
            ports = {"gate": broker.gate_port, "broker": broker.broker_port}
            yield from figures(uvloop.run(_rounds(ports, topics, gate)))


MEASUREMENTS: Mapping[str, Measurement] = {"gate/shared-connection": shared_connection}
