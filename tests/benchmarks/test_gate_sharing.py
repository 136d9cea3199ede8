"""The client that measures what a throttled producer costs another one on its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from benchmarks.gate_load import Puppet
from benchmarks.gate_process import HELD_RATE, TENANT, free_port, running
from benchmarks.gate_sharing import ProducerTurn, Round, SharedConnection, figures
from coordinator.gate.protocol import frames
from coordinator.gate.protocol.commands import read_first_id
from coordinator.gate.protocol.frames import read_head, read_sizes
from tests.gate import peer


class Broker(Puppet):
    """Answers everything, each producer's publishes with its own receipts, or with an error."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__(self._answer)
        self._refuses = refuses
        self._opened = 0
        self._unread = b""

    def _answer(self, data: bytes) -> None:
        stream = self._unread + data
        while len(stream) >= 8 and len(stream) >= 4 + read_sizes(stream, 0)[0]:
            total, size = read_sizes(stream, 0)
            match stream[9]:
                case frames.CONNECT:
                    self.write(peer.connected())
                case frames.PRODUCER:
                    self._opened += 1
                    self.write(peer.producer_success(self._opened))
                case frames.SEND:
                    number = read_first_id(stream, read_head(stream, 8, 8 + size)[1], 8 + size)
                    self.write((peer.send_error if self._refuses else peer.receipt)(number))
            stream = stream[4 + total :]
        self._unread = stream


async def play(
    broker: Broker,
    use: Callable[[SharedConnection], Coroutine[Any, Any, None]],
    listen: int,
    upstream: int,
    processor_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Use a connection to a port that leads to this broker at another one, or at the same."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: broker, "127.0.0.1", upstream)
    namespaces = ("limited", "held", "limited")
    topics = [f"persistent://{TENANT}/{name}/t{n}" for n, name in enumerate(namespaces)]
    connection = SharedConnection(*topics, processor_s=processor_s)
    try:
        await connection.open(listen)
        await use(connection)
        await connection.puppet.close()
        await broker.closed.wait()
    finally:
        server.close()


def test_the_free_producer_is_answered_beside_a_throttled_one_and_beside_a_paced_one() -> None:
    """Each neighbour is busy in its own turn only, and neither gets more than its rate."""

    async def use(connection: SharedConnection) -> None:
        loop = asyncio.get_running_loop()
        for throttled in (True, False):
            started = loop.time()
            free, neighbour = await connection.turn(0.3, throttled=throttled)
            most = HELD_RATE * (loop.time() - started + 1)  # and what a full bucket lets pass
            assert free.rate > 0
            assert free.processor > 0
            assert neighbour.rate * 0.3 <= most
            assert connection.free.under_way == connection.throttled.under_way == 0

    upstream = free_port()
    with running("gate", free_port(), upstream) as gate:
        uvloop.run(play(Broker(), use, gate.port, upstream, gate.processor_s))


def test_a_refusal_ends_the_measurement() -> None:
    """A producer without receipts is not slow but wrong."""

    async def use(connection: SharedConnection) -> None:
        with pytest.raises(RuntimeError, match="answered with"):
            await connection.turn(0.1, throttled=False)

    port = free_port()
    uvloop.run(play(Broker(refuses=True), use, port, port))


def test_a_figure_is_the_median_of_the_rounds_ratios() -> None:
    """A round that was disturbed does not count, whichever half of it."""

    def rounds(*rates: tuple[float, float]) -> list[Round]:
        return [
            Round(
                ProducerTurn(beside_throttled, 0.5),
                ProducerTurn(beside_paced, 0.49),
                ProducerTurn(1000),
            )
            for beside_throttled, beside_paced in rates
        ]

    gate = rounds((9_900, 10_000), (1_000, 10_000), (9_800, 9_800))
    rate, held = figures({"gate": gate, "broker": rounds((500, 10_000))})

    assert rate.value == 0.99
    assert rate.peers["broker"] == 0.05
    assert rate.met
    assert held.value == pytest.approx((0.5 - 0.49 * 0.99) * 1000)
