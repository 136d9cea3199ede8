"""The processor time of one message at the real client, into a sidecar's bus and out of it.

A bus of the product stands in this process, on a non-persistent topic of a real broker. Another process
(``python -m benchmarks.bus_price SERVICE_URL TOPIC BYTES``) sends to the topic by a bus of its own. The
processor time of this process and of the bus's client is divided by the messages that came; messages of
two sizes tell the price of a byte. Outwards, this process sends: its own messages come back to it, as
they do to each sidecar, and that part is taken off.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import uvloop

from benchmarks.one_broker import one_broker
from coordinator.adapters.pulsar.bus import PulsarBus
from coordinator.runtime.logs import configure_logs
from deploy.local import processes

SMALL_BYTES: Final = 300
LARGE_BYTES: Final = 20_000
_NAMESPACE: Final = "bench/bus"
_BURST: Final = 50
_GAP_S: Final = 0.05
"""1,000 messages a second, which no bounded queue on the way loses."""
_MEASURED_S: Final = 4.0
_BEGINS_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class BusPrice:
    """Processor time at the client.

    Args:
        in_s: of a message that comes, without its bytes.
        out_s: of a message that is sent, without its bytes.
        byte_s: of each byte of payload, in either direction.
    """

    in_s: float
    out_s: float
    byte_s: float

    def seconds_in(self, payloads: Sequence[bytes]) -> float:
        """Return the processor time until these have come."""
        return len(payloads) * self.in_s + sum(map(len, payloads)) * self.byte_s

    def seconds_out(self, payloads: Sequence[bytes]) -> float:
        """Return the processor time until these are sent."""
        return len(payloads) * self.out_s + sum(map(len, payloads)) * self.byte_s


def measure_bus_price() -> BusPrice:
    """Start a cluster of one broker, and measure."""
    with one_broker(_NAMESPACE, bundles=1) as cluster:
        return uvloop.run(_measure(cluster.brokers[0].service_url))


async def _measure(service_url: str) -> BusPrice:
    small_s = await _price(service_url, SMALL_BYTES, sends=False)
    large_s = await _price(service_url, LARGE_BYTES, sends=False)
    byte_s = max(0.0, (large_s - small_s) / (LARGE_BYTES - SMALL_BYTES))
    both_s = await _price(service_url, SMALL_BYTES, sends=True)
    return BusPrice(
        in_s=small_s - SMALL_BYTES * byte_s,
        out_s=max(0.0, both_s - small_s - SMALL_BYTES * byte_s),
        byte_s=byte_s,
    )


async def _price(service_url: str, size: int, *, sends: bool) -> float:
    """Seconds of processor for each message that comes; it was sent here, too, if told so."""
    topic = f"non-persistent://{_NAMESPACE}/{'own' if sends else 'other'}-{size}"
    bus = PulsarBus(service_url, (topic,))
    await bus.start()
    try:
        await _until(lambda: all(bus.health().connected.values()))
        if sends:
            sending = asyncio.create_task(_send(bus, size))
            found = await _observe(bus)
            sending.cancel()
            return found
        with _another_sender(service_url, topic, size):
            return await _observe(bus)
    finally:
        await bus.stop()


async def _observe(bus: PulsarBus) -> float:
    await _until(lambda: bus.health().received > 0)
    received, used_s = bus.health().received, _used_s(bus)
    await asyncio.sleep(_MEASURED_S)
    return (_used_s(bus) - used_s) / (bus.health().received - received)


def _used_s(bus: PulsarBus) -> float:
    """Processor time of this process, and of the bus's client."""
    assert bus.client_pid is not None
    return time.process_time() + processes.processor_s(bus.client_pid)


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(_BEGINS_WITHIN_S):
        while not is_so():  # noqa: ASYNC110 - messages make it so
            await asyncio.sleep(_GAP_S)


async def _send(bus: PulsarBus, size: int) -> None:
    """Send until cancelled."""
    while True:
        for _ in range(_BURST):
            bus.publish(bytes(size))
        await asyncio.sleep(_GAP_S)


@contextmanager
def _another_sender(service_url: str, topic: str, size: int) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.bus_price", service_url, topic, str(size)]
    with subprocess.Popen(command) as process:  # noqa: S603 - our own module
        try:
            yield
        finally:
            process.terminate()


async def _send_for_ever(service_url: str, topic: str, size: int) -> None:
    configure_logs("warning")
    bus = PulsarBus(service_url, (topic,))
    await bus.start()
    await _send(bus, size)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        uvloop.run(_send_for_ever(sys.argv[1], sys.argv[2], int(sys.argv[3])))
