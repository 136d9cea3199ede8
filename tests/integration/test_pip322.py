"""PIP-322's end-to-end cases with a real broker, against the bounds that Pulsar's own tests set and ours.

All of PIP-322's acceptance cases, and where they are shown:

* AsyncTokenBucketTest A1 to A8: tests/core/limiting/test_token_bucket.py, ``test_a1_...`` to
  ``test_a8_...``.
* PublishRateLimiterTest: tests/gate/limits/test_limiter.py, ``test_pulsars_publish_limiter_cases``.
* PublishRateLimiterOverconsumingTest, 500 messages per second of 5 producers:
  ``test_five_producers_keep_to_500_messages_per_second``.
* apache/pulsar#26006, 3,000 frames in one burst: ``test_a_burst_of_3000_frames_is_spread_out``, and to
  the frame in tests/gate/limits/test_admission.py under the same name; nothing behind a frame that stops
  is decoded: tests/gate/protocol/test_stream.py, ``test_nothing_behind_a_stop_is_decoded``.
* apache/pulsar#25502, a raised limit acts at once: tests/gate/limits/test_admission.py,
  ``test_a_raised_limit_releases_at_once``.
* apache/pulsar#23930, each release on its own: tests/gate/server/test_proxy.py,
  ``test_each_release_is_on_its_own``.
* All reasons at once, each counted, with hysteresis: tests/gate/limits/test_throttle.py.
* DispatchRateLimiterOverconsumingTest: test_dispatch.py, and to the entry in
  tests/gate/limits/test_dispatch.py.
* Several producers on one connection, which PIP-322 leaves open: tests/gate/engine/test_session.py, and
  tests/gate/engine/test_endurance.py, ``test_a_throttled_producer_slows_nobody_on_its_connection``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

import pulsar
import pytest

from coordinator.gate.protocol.frames import read_fields, read_head
from tests.gate import peer
from tests.gate.server.test_proxy import read_frame
from tests.integration.test_topic_limits import in_force, limit_topic
from tests.integration.world import World, eventually, least_per_second

pytestmark = pytest.mark.cluster

Connect = Callable[[str], pulsar.Client]


def by_second(times: Sequence[float], since: float) -> list[int]:
    """Return the number of moments in each second."""
    seconds = [int(at - since) for at in times]
    return [seconds.count(second) for second in range(max(seconds) + 1)]


def send_all(client: pulsar.Client, topic: str, count: int, done: list[float]) -> None:
    """Send one after the other, each with its receipt."""
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(count):
        producer.send(str(number).encode())
        done.append(time.monotonic())
    producer.close()


@pytest.mark.shows("pip-322/consistent", "pip-322/one-solution")
def test_five_producers_keep_to_500_messages_per_second(world: World, connect: Connect) -> None:
    """PublishRateLimiterOverconsumingTest: 3,000 messages, and bounds from both sides.

    Pulsar accepts 40 % too much on average and 55 % in two neighbouring seconds, and asks for no least.
    Ours is 5 % and 100 messages from the start to any moment.
    """
    topic = world.topic_of["broker-1"]
    limit_topic(world, topic, 500)
    eventually(lambda: in_force(world, topic, "broker-1").get("rate") == 500, "the limit")
    done: list[float] = []
    threads = [
        threading.Thread(
            target=send_all, args=(connect(world.sidecars.service_url), topic, 600, done)
        )
        for _ in range(5)
    ]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(done) == 3000
    assert (3000 - 500) / (max(done) - started) <= 1.4 * 500
    # Counted from the start: a client that stands still has two seconds' messages in one.
    assert all(n <= 100 + 500 * 1.05 * (at - started) for n, at in enumerate(sorted(done)))
    assert least_per_second(done) >= 500 * 0.7


@pytest.mark.shows(
    "pip-322/burst", "pip-322/backpressure", "pip-322/in-progress", "pip-322/token-bucket"
)
async def test_a_burst_of_3000_frames_is_spread_out(world: World) -> None:
    """All in one piece, on one connection: each has its receipt, in order, at 500 per second.

    Upstream let 1,416 and 1,584 through in two seconds; its bound is 1,550 for two neighbouring ones.
    Ours is 1,150 for the first two.
    """
    topic = world.topic_of["broker-1"]
    limit_topic(world, topic, 500)
    eventually(lambda: in_force(world, topic, "broker-1").get("rate") == 500, "the limit")
    gate = world.cluster.brokers[0].gate_port
    reader, writer = await asyncio.open_connection("127.0.0.1", gate)
    for request, answer in (
        (peer.connect(), 3),
        (peer.command(23, (1, topic), (2, 1), (3, 0)), 24),
        (peer.producer(topic, 1, 2), 17),
    ):
        writer.write(request)
        assert peer.kind_of(await read_frame(reader)) == answer
    frames = [peer.send(1, number, checksum=False) for number in range(3000)]
    times = []
    started = time.monotonic()
    writer.write(b"".join(frames))
    async with asyncio.timeout(60):
        for number in range(3000):
            kind, producer_id, sequence = receipt_of(await read_frame(reader))
            times.append(time.monotonic())
            assert (kind, producer_id, sequence) == (7, 1, number)
    writer.close()

    assert by_second(times, started)[0] <= 500 * 1.15
    # Counted from the start: a late reader reads the waiting messages at once.
    assert all(n <= 100 + 500 * 1.05 * (at - started) for n, at in enumerate(times))
    assert least_per_second(times) >= 500 * 0.7


def receipt_of(frame: bytes) -> tuple[int, int, int]:
    """Type, producer and sequence number of a SEND_RECEIPT."""
    end = 8 + int.from_bytes(frame[4:8], "big")
    command = read_fields(frame, read_head(frame, 8, end)[1], end)
    producer_id, sequence = command[1], command[2]
    assert isinstance(producer_id, int)
    assert isinstance(sequence, int)
    return peer.kind_of(frame), producer_id, sequence
