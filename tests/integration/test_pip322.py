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
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pulsar
import pytest

from coordinator.gate.protocol.frames import read_fields, read_head
from tests.attacks.raw import PRODUCER_SUCCESS, RawClient
from tests.conftest import Connect, Figure, Measure
from tests.gate import peer
from tests.gate.server.test_proxy import read_frame
from tests.integration.sliding import Counted
from tests.integration.test_topic_limits import in_force, limit_topic
from tests.integration.timed import Timed
from tests.integration.windows import hold, windows
from tests.integration.world import World, eventually, least_per_second

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

IDLE = 1_000


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
def test_five_producers_keep_to_500_messages_per_second(
    world: World, connect: Connect, measured: Measure
) -> None:
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
    # Counted from the start: a client that stands still has two seconds' messages in one.
    ahead = max(n - 500 * 1.05 * (at - started) for n, at in enumerate(sorted(done)))
    measured("3,000 messages of five", (3000 - 500) / (max(done) - started), "/s", most=700)
    measured("messages ahead of 1.05 x 500/s", ahead, "messages", most=100)
    measured("the middle second", least_per_second(done), "/s", least=500 * 0.7)


@pytest.mark.shows(
    "pip-322/burst", "pip-322/backpressure", "pip-322/in-progress", "pip-322/token-bucket"
)
async def test_a_burst_of_3000_frames_is_spread_out(world: World, measured: Measure) -> None:
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

    # Counted from the start: a late reader reads the waiting messages at once.
    ahead = max(n - 500 * 1.05 * (at - started) for n, at in enumerate(times))
    measured("first second of 3,000 frames", by_second(times, started)[0], most=500 * 1.15)
    measured("frames ahead of 1.05 x 500/s", ahead, "frames", most=100)
    measured("the middle second", least_per_second(times), "/s", least=500 * 0.7)


@pytest.mark.shows("pip-322/negative")
def test_a_message_larger_than_the_bucket_leaves_a_debt_that_is_paid_back(
    world: World, measured: Measure, figure: Figure
) -> None:
    """200 kB of 50 kB/s pass at once; what comes behind waits for what they cost, 4 s."""
    world.limit(publishRateInBytes=50_000)
    with Timed(world, "broker-1") as client:
        eventually(
            lambda: 49_500 <= world.local_limits()["broker-1"]["publishRateInBytes"] <= 50_000,
            "the limit",
        )
        client.publishes(1)
        client.waits_for_all()
        for _ in range(3):
            time.sleep(0.5)  # the small message is paid for
            client.publishes(1, b"x" * 200_000)
            client.publishes(1)
            client.waits_for_all()
    waits_s = [at - sent for at, sent in zip(client.receipts_s, client.sent_s, strict=True)][1:]
    for at_once_s, waited_s in zip(waits_s[::2], waits_s[1::2], strict=True):
        measured("200 kB of 50 kB/s", at_once_s, "s", most=0.2)
        measured("the message behind it", waited_s, "s", least=3.88, most=4.12)
    at_once_s, waited_s = waits_s[-2:]
    figure("pip-322/negative", f"{1000 * at_once_s:.0f} ms, and {waited_s:.2f} s for the next one")


class Hasty:
    """A client that always has a hundred messages waiting, and notes when receipts come."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self._producer = client.create_producer(
            topic, batching_enabled=False, block_if_queue_full=True, max_pending_messages=100,
            send_timeout_millis=0,
        )  # fmt: skip
        self.receipts_s: list[float] = []

    def publish(self, until: threading.Event) -> None:
        """Send until then, and wait for all receipts."""
        while not until.is_set():
            self._producer.send_async(b"x" * 100, self._take)
        self._producer.flush()

    def _take(self, _result: pulsar.Result, _id: object) -> None:
        self.receipts_s.append(time.monotonic())


@pytest.mark.shows("pip-322/bundle-unload")
def test_a_limit_holds_before_during_and_after_a_bundle_is_unloaded(
    world: World, connect: Connect, measured: Measure, figure: Figure
) -> None:
    """200/s at one broker, at the next one and at the first again; all three sidecars share it."""
    topic, limit = world.topic_of["broker-1"], 200
    first, second, *_ = world.cluster.brokers
    world.limit(publishRateInMsgs=limit)
    eventually(lambda: 0 <= world.local_limit("broker-1") <= limit, "a limit")
    client, stop = Hasty(connect(world.sidecars.service_url), topic), threading.Event()
    thread = threading.Thread(target=client.publish, args=(stop,))
    thread.start()
    rates, began_s = [], [time.monotonic()]
    try:
        for broker in (first, second, first):
            if broker is not world.topics.owner(topic):
                world.topics.move(topic, broker)
                began_s.append(time.monotonic())
            rates.append(steady_rate(client, limit, measured))
    finally:
        stop.set()
        thread.join(60)
    for since_s in began_s:
        after = [at_s for at_s in client.receipts_s if at_s > since_s]
        # A client that stands still takes what came in the meantime at once. Two whole limits at once,
        # of both brokers for as long as one of them takes to hear of the other, would be more.
        assert all(n <= limit * (1.0 + 1.05 * (at - after[0])) for n, at in enumerate(after))
    told = " / ".join(f"{rate:,.0f}" for rate in rates)
    figure("pip-322/bundle-unload", f"{told} of {limit} messages/s before, between and after moves")


def steady_rate(client: Hasty, limit: int, measured: Measure) -> float:
    """Wait until receipts come at about the limit, hold three windows to it; return the last rate."""

    def counted() -> Counted:
        return {"receipts": (len(client.receipts_s), time.monotonic())}

    eventually(
        lambda: windows(counted, 1, 1)[0]["receipts"] == pytest.approx(limit, rel=0.15),
        f"about {limit}",
    )
    seen = windows(counted, 3)
    hold(measured, f"{limit} at one broker after another", seen, {"receipts": limit})
    return seen[-1]["receipts"]


@pytest.mark.shows("pip-322/lazy")
def test_producers_that_send_nothing_take_no_processor_time(
    world: World, measured: Measure, figure: Figure
) -> None:
    """A thousand of a group with a limit add less than a hundredth of a processor to the gate's time."""
    broker, topic = world.cluster.brokers[0], world.topic_of["broker-1"]
    world.limit(publishRateInMsgs=10)
    gate = world.sidecars.gate(broker.name).pid
    with RawClient(broker.gate_port) as raw:
        before = used_of_processor(gate)
        requests = (peer.producer(topic, number, number) for number in range(1, 1 + IDLE))
        assert raw.send(b"".join(requests))
        eventually(lambda: raw.counted(PRODUCER_SUCCESS) == IDLE, "all are open")
        with_idle = used_of_processor(gate)
    measured("a processor for 1,000 idle producers", 100 * (with_idle - before), "%", most=1)
    told = f"{100 * before:.1f} % of a processor without, {100 * with_idle:.1f} % with {IDLE:,}"
    figure("pip-322/lazy", told)


def used_of_processor(pid: int) -> float:
    """The part of a processor that a process uses, over four seconds."""
    stat = Path(f"/proc/{pid}/stat")

    def used_s() -> float:
        """In user and system mode, the 14th and 15th field: two of them are before the brackets' end."""
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    began_s, before_s = time.monotonic(), used_s()
    time.sleep(4)
    return (used_s() - before_s) / (time.monotonic() - began_s)


def receipt_of(frame: bytes) -> tuple[int, int, int]:
    """Type, producer and sequence number of a SEND_RECEIPT."""
    end = 8 + int.from_bytes(frame[4:8], "big")
    command = read_fields(frame, read_head(frame, 8, end)[1], end)
    producer_id, sequence = command[1], command[2]
    assert isinstance(producer_id, int)
    assert isinstance(sequence, int)
    return peer.kind_of(frame), producer_id, sequence
