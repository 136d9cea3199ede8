"""``pulsar-quota alarms``."""

from __future__ import annotations

import asyncio
import json

from tests.admin_api.test_alarms import lose_a_peer
from tests.admin_api.world import World
from tests.cli.conftest import Run


def test_alarms_are_a_table_with_what_to_do(run: Run, world: World) -> None:
    """The table shows firing alarms, and pending ones on request."""
    asyncio.run(lose_a_peer(world, 3))
    assert run("alarms").stdout == "No alarm.\n"
    assert "pending" in run("alarms", "--pending").stdout

    asyncio.run(lose_a_peer(world, 12))
    shown = run("alarms", columns=200).stdout

    assert "PeerLost" in shown
    assert "broker-2 is gone without saying so" in shown
    assert "Look at that broker" in shown
    assert [each["subject"] for each in json.loads(run("alarms", "--json").stdout)] == ["broker-2"]
