"""Fixtures: a sidecar that relays to a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.admin_api.world import Broker, World


@pytest.fixture
async def client(world: World, broker: Broker) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a sidecar beside the broker."""
    async with world.client(relay=broker.relay) as client:
        yield client
