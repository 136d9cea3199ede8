"""The log names who takes much of a limit in advance, and others wait for no more than that."""

from __future__ import annotations

import asyncio

import structlog

from coordinator.core.model import Attachments, Rates
from tests.gate import peer
from tests.gate.conftest import TOPIC
from tests.gate.server.hostile_site import site
from tests.gate.server.test_proxy import until


async def test_the_log_names_who_took_a_limit_in_advance() -> None:
    """With the group, the topic, and what was published."""
    async with site() as here:
        here.gate.set_attachments(Attachments({}, {"tenant/ns": "group"}))
        here.gate.set_limits("group", Rates(publish_messages=10))
        client = await here.client()
        with structlog.testing.capture_logs() as lines:
            batch = peer.send(messages=40)
            assert await client.asks(batch) == peer.receipt(1, 0)
        (line,) = [line for line in lines if line["event"] == "limit taken in advance"]

        host, port = client.writer.get_extra_info("sockname")
        assert (line["group"], line["topic"], line["messages"]) == ("group", TOPIC, 40)
        assert (line["peer"], line["size"]) == (f"{host}:{port}", peer.size_of(batch))
        assert line["seconds"] == 3.9


async def test_those_that_wait_are_served_as_soon_as_a_client_that_leaves_allows() -> None:
    """The last kilobyte of its publish never came: they need not wait for that, too."""
    async with site() as here:
        here.gate.set_attachments(Attachments({}, {"tenant/ns": "group"}))
        here.gate.set_limits("group", Rates(publish_bytes=10_000))
        gone, waits = await here.client(), await here.client()
        publish = peer.send(content=b"z" * 40_000)
        await asyncio.sleep(0.1)  # until the bucket is full
        gone.writer.write(publish[:-1_000])
        published = here.gate._groups.group("group").publish
        await until(lambda: published.bytes == peer.size_of(publish))
        waits.writer.write(publish)
        await until(lambda: here.gate.figures().held_frames == 1)
        queue, timer = here.gate._queue, here.gate._wake_timer
        before_ns = queue.next_wake_ns()

        gone.writer.transport.abort()
        await until(lambda: here.gate.figures().connections == 1)

        wakes_ns = queue.next_wake_ns()
        assert wakes_ns is not None
        assert before_ns is not None
        assert wakes_ns < before_ns
        assert timer._due_ns == wakes_ns
