"""The level of the log, over the API."""

from __future__ import annotations

import httpx
import pytest

from tests.admin_api.world import World

PATH = "/quota/v1/log-level"


async def test_the_level_is_shown_and_changed(client: httpx.AsyncClient, world: World) -> None:
    """The change holds at once."""
    assert (await client.get(PATH)).json() == {"level": "info"}

    changed = await client.put(PATH, json={"level": "debug"})

    assert (changed.status_code, changed.json()) == (200, {"level": "debug"})
    assert world.log_level.name == "debug"


@pytest.mark.parametrize("body", [{"level": "loud"}, {"level": 10}, {}, []])
async def test_a_level_that_does_not_exist_is_refused(
    client: httpx.AsyncClient, world: World, body: object
) -> None:
    """The reason names the levels that exist, and nothing changes."""
    refused = await client.put(PATH, json=body)

    assert refused.status_code == 400
    assert world.log_level.name == "info"
