"""Connections that end for a malformed frame, of either side: whose it was, and what they leave."""

from __future__ import annotations

import structlog

from coordinator.core.model import Attachments, Rates
from tests.gate import peer
from tests.gate.server.hostile_site import site
from tests.gate.server.test_proxy import until


async def test_a_broker_that_makes_no_sense_leaves_nothing_held() -> None:
    """At once: its client may take half a minute to be gone, and others may wait for the room."""
    async with site() as here:
        here.gate.set_attachments(Attachments({}, {"tenant/ns": "limited"}))
        here.gate.set_limits("limited", Rates(publish_messages=0))
        client = await here.client()
        client.writer.write(peer.send())
        await until(lambda: here.gate.figures().held_frames == 1)
        (connection,) = here.gate._connections

        connection.broker_data_received(b"\xff" * 12)

        assert connection.session.held_bytes == 0
        assert await client.is_closed()


async def test_a_malformed_frame_is_its_clients_whatever_brings_it_to_light() -> None:
    """It stands behind a publish that waits for the broker's receipt of another one."""
    async with site(pending_requests_max=1) as here:
        client = await here.client()
        with structlog.testing.capture_logs() as logs:
            client.writer.write(peer.send(1, 1) + peer.send(1, 2) + b"\xff" * 20)
            await until(lambda: bool(here.gate.figures().malformed_closes))

        assert here.gate.figures().pauses == 1
        assert [log["side"] for log in logs] == ["client"]
