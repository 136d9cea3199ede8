"""Every gate keeps the promises of its ports, in the caller's process and in one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.core.model import Attachments, MonitoringClass, Rates
from coordinator.gate.process.handle import GateProcess
from coordinator.gate.process.service import LocalGate
from tests.gate import peer
from tests.gate.process.processes import Site, site, site_here
from tests.gate.server.test_proxy import until

GROUP = Attachments({}, {"tenant/ns": "group"})

AnySite = Site[LocalGate] | Site[GateProcess]


@pytest.fixture(params=["here", "process"])
async def here(request: pytest.FixtureRequest) -> AsyncIterator[AnySite]:
    """A gate at work."""
    async with site() if request.param == "process" else site_here() as at_work:
        yield at_work


async def test_messages_pass_and_are_counted(here: AnySite) -> None:
    """The coordinator hears of the publisher."""
    here.gate.set_attachments(GROUP)
    client = await here.client()
    assert await client.asks(peer.send(1, 5)) == peer.receipt(1, 5)

    (traffic,) = await here.gate.collect()
    assert (traffic.group, traffic.messages, traffic.participants) == ("group", 1, 1)
    assert await here.gate.published_topics() == {"persistent://tenant/ns/topic"}
    await until(lambda: here.story.participants == [("group", MonitoringClass.PUBLISH, 1)])


async def test_it_is_said_once_when_something_passes_after_a_quiet_time(here: AnySite) -> None:
    """A caller that knows of participants alone need not ask all the time."""
    resumed: list[None] = []
    here.gate.watch_traffic(lambda: resumed.append(None))
    here.gate.set_attachments(GROUP)
    client = await here.client()
    for turn in range(3):
        (quiet,) = await here.gate.collect()
        assert (quiet.messages, quiet.participants) == (0, 1)
        assert len(resumed) == turn
        assert await client.asks(peer.send(1, 2 * turn)) == peer.receipt(1, 2 * turn)
        await until(lambda: len(resumed) > turn)  # noqa: B023 - called in this very turn
        assert await client.asks(peer.send(1, 2 * turn + 1)) == peer.receipt(1, 2 * turn + 1)
        (traffic,) = await here.gate.collect()
        assert traffic.messages == 2
    assert len(resumed) == 3


async def test_who_begins_to_wait_after_a_quiet_time_is_noticed(here: AnySite) -> None:
    """Nothing passes at a limit of nothing, and that is news too."""
    resumed: list[None] = []
    here.gate.watch_traffic(lambda: resumed.append(None))
    here.gate.set_attachments(GROUP)
    here.gate.set_limits("group", Rates(publish_messages=0))
    client = await here.client()
    await here.gate.collect()
    client.writer.write(peer.send(1, 1))
    await until(lambda: len(resumed) == 1)


async def test_what_is_told_is_in_force_before_it_is_said_to_be(here: AnySite) -> None:
    """In the order of the calls; and at once where nothing was told since."""
    client = await here.client()
    said: list[str] = []
    here.gate.set_attachments(GROUP)
    here.gate.set_limits("group", Rates(publish_messages=0))
    here.gate.when_in_force(lambda: said.append("held"))
    here.gate.when_in_force(lambda: said.append("and known"))
    await until(lambda: said == ["held", "and known"])

    client.writer.write(peer.send(1, 1))
    assert await client.asks(peer.PING) == peer.PONG
    assert (await here.gate.figures()).held_frames == 1
    here.gate.when_in_force(lambda: said.append("at once"))
    assert said[-1] == "at once"
    here.gate.remove_limits("group")
    here.gate.when_in_force(lambda: said.append("free"))
    assert await client.next() == peer.receipt(1, 1)
    await until(lambda: said[-1] == "free")


async def test_a_gate_that_drains_answers_what_is_under_way(here: AnySite) -> None:
    """It then ends every connection."""
    client = await here.client()
    here.broker.answers = False
    client.writer.write(peer.send(1, 1))
    await until(lambda: len(here.broker.sends()) == 1)
    draining = asyncio.ensure_future(here.gate.drain(30))
    here.broker.writers[0].write(peer.receipt(1, 1))
    assert await client.next() == peer.receipt(1, 1)
    assert await client.next() == b""
    await draining


async def test_what_passed_is_told_by_namespace_and_class(here: AnySite) -> None:
    """As often as it is asked for: reconciliation compares it with what the broker counted."""
    client = await here.client()
    row = "tenant/ns", MonitoringClass.PUBLISH
    assert await here.gate.passed_totals() == {row: (0, 0)}
    assert await client.asks(peer.send(1, 5)) == peer.receipt(1, 5)
    (size,) = (size for _, size in (await here.gate.passed_totals()).values())
    assert size == len(peer.payload_of(b"x" * 100))
    assert await here.gate.passed_totals() == {row: (1, size)}
