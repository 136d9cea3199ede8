"""Fixtures: a world in memory, and a client that calls its app without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.admin_api.world import Broker, World


@pytest.fixture
def world() -> World:
    """A healthy sidecar's surroundings."""
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the world's app."""
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sidecar") as client:
        yield client


@pytest.fixture
async def orders(world: World) -> str:
    """A group called orders, limited to 3,000 messages/s."""
    await world.put_orders()
    return "orders"


@pytest.fixture
def broker() -> Broker:
    """The own broker, which answers 204 unless a test says otherwise."""
    return Broker()
