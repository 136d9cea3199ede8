"""Fixtures: the command, run in this process against the app of a world in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from coordinator.cli.__main__ import app
from tests.admin_api.world import World

Run = Callable[..., Result]


class InProcess(httpx.BaseTransport):
    """Carries requests to an ASGI app, each in an event loop of its own."""

    def __init__(self, world: World) -> None:
        self._app = httpx.ASGITransport(world.app)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the app."""
        self.requests.append(request)
        return asyncio.run(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        with capture_logs():  # a sidecar logs elsewhere, not where the command prints
            response = await self._app.handle_async_request(request)
            content = await response.aread()
        return httpx.Response(response.status_code, headers=response.headers, content=content)


@pytest.fixture
def world() -> World:
    """A healthy sidecar's surroundings, with a group called orders."""
    world = World()
    asyncio.run(world.put_orders())
    world.throttle_orders()
    return world


@pytest.fixture
def transport(world: World) -> InProcess:
    """Return the transport of the command's requests."""
    return InProcess(world)


@pytest.fixture
def run(transport: InProcess, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``pulsar-quota`` with words as arguments, on a terminal of 120 columns."""
    for name in ("PULSAR_QUOTA_API", "PULSAR_QUOTA_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str, columns: int = 120, carrier: httpx.BaseTransport = transport) -> Result:
        monkeypatch.setenv("COLUMNS", str(columns))
        return CliRunner().invoke(app, words, obj=carrier, prog_name="pulsar-quota")

    return run
