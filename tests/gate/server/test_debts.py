"""The log names the client that takes much of a limit in advance."""

from __future__ import annotations

import structlog

from coordinator.core.model import Attachments, Rates
from tests.gate import peer
from tests.gate.conftest import TOPIC
from tests.gate.server.hostile_site import site


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
