"""A gate bears clients that creep, sides that fall silent, busy neighbours, and a long life."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from coordinator.core.model import Rates
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client
from tests.gate.server.test_proxy import GROUP, site, until

OTHER = "persistent://tenant/other/topic"


async def test_a_client_that_sends_byte_by_byte_delays_no_other() -> None:
    """A frame byte by byte: what is kept is that frame, and others go on meanwhile."""
    async with site() as here:
        slow, quick = await here.client(), await here.client()
        frame = peer.send(1, 0, content=b"x" * 60)
        for number, byte in enumerate(frame):
            slow.writer.write(bytes([byte]))
            await slow.writer.drain()
            if number % 20 == 0:
                assert await quick.asks(peer.send(1, number)) == peer.receipt(1, number)

        assert await slow.next() == peer.receipt(1, 0)


@pytest.mark.parametrize("side", ["client", "broker"])
async def test_a_side_that_is_gone_without_a_word_ends_the_other(side: str) -> None:
    """A reset instead of an end: nothing of the connection is left."""
    async with site() as here:
        client = await here.client()
        writer = client.writer if side == "client" else here.broker.writers[0]
        writer.transport.abort()

        await until(lambda: here.gate.figures().connections == 0)
        assert here.gate.figures().producers == 0


def steps_of_publishing(bench: Bench, client: Client, producer_id: int) -> int:
    """Let one producer publish a read of 64 and get its receipts; how many calls that took."""
    frames = b"".join(peer.send(producer_id, number) for number in range(64))
    receipts = b"".join(peer.receipt(producer_id, number) for number in range(64))
    steps: Counter[str] = Counter()
    gc.disable()  # listeners to its collections would be counted
    sys.setprofile(lambda _frame, event, _argument: steps.update((event,)))
    try:
        client.session.receive_from_client(frames, bench.now_ns)
        client.session.receive_from_broker(receipts, bench.now_ns)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert len(client.session.to_broker) == 1, "all of them, in one piece"
    client.session.to_broker.clear()
    client.session.to_client.clear()
    return steps["call"] + steps["c_call"]


def test_a_throttled_producer_slows_nobody_on_its_connection(bench: Bench) -> None:
    """Others' frames all pass at once, in as many steps as on a connection where no frame is held.

    Time itself would be a matter of what else the machine does.
    """
    bench.limited(0)
    throttled, free = bench.client(), bench.client()
    for client in (throttled, free):
        client.opens(peer.producer(TOPIC, 1, 1), peer.producer(OTHER, 2, 2))
    throttled.sends(*(peer.send(1, number) for number in range(500)))
    assert throttled.session.held_frames == 500

    alone = steps_of_publishing(bench, free, 2)
    beside = steps_of_publishing(bench, throttled, 2)

    assert 0 < beside == alone


@pytest.mark.verify
@pytest.mark.slow
def test_hours_of_traffic_leave_memory_flat(bench: Bench) -> None:
    """Clients come, publish, consume, wait and go, thousands of times; what is left is what was."""
    bench.attach(ns="limited")
    bench.set_limits("limited", Rates(1000, None, 1000, None))

    def hour() -> None:
        for number in range(50):
            client = bench.client()
            client.opens(peer.producer(f"{TOPIC}-{number}", 1, 1), peer.subscribe(TOPIC, 1, 2))
            client.is_sent(peer.producer_success(1), peer.success(2))
            client.sends(peer.flow(1, 100), *(peer.send(1, n) for n in range(30)))
            bench.wait(20)
            client.is_sent(*(peer.receipt(1, n) for n in range(10)), peer.delivery(1, 3))
            client.session.close(bench.now_ns)
            bench.clients.remove(client)
        bench.released.clear()
        bench.story.participants.clear()
        bench.wait(1000)
        bench.groups.collect(bench.now_ns)

    hour()
    tracemalloc.start()
    try:
        hour()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(4):
            hour()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    # Of 200 connections; the smallest thing that one could leave in a list takes more than 16 bytes.
    assert grown < 200 * 16


def open_files() -> int:
    """Return the number of files and sockets that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_hundreds_of_visits_leave_no_task_and_no_socket() -> None:
    """Clients connect, publish more than they may, and leave in the middle of it."""
    async with site() as here:
        here.gate.set_attachments(GROUP)
        here.gate.set_limits("group", Rates(publish_messages=50))
        before = open_files()
        for _ in range(300):
            client = await here.client()
            client.writer.write(b"".join(peer.send(1, number) for number in range(5)))
            await client.writer.drain()
            client.writer.close()
            here.clients.remove(client)

        await until(lambda: here.gate.figures().connections == 0)
        await until(lambda: len(asyncio.all_tasks()) == 1)
        await until(lambda: open_files() <= before + 10)
        assert here.gate.figures().held_bytes == 0


async def test_limits_change_while_traffic_flows() -> None:
    """Set, lifted and moved a hundred times: nothing is lost, doubled or out of order."""
    async with site() as here:
        here.gate.set_attachments(GROUP)
        client = await here.client()
        for number in range(100):
            here.gate.set_limits("group", Rates(publish_messages=(0, 50, 5000, None)[number % 4]))
            client.writer.write(peer.send(1, number))
            await asyncio.sleep(0.001)
        here.gate.remove_limits("group")

        received = [await client.next() for _ in range(100)]

        assert received == [peer.receipt(1, number) for number in range(100)]
        assert here.broker.sends() == [peer.send(1, number) for number in range(100)]
