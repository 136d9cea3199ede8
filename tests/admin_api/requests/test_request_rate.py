"""One host's requests have a bound, and one host's alone."""

from __future__ import annotations

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from admin_api.requests import request_rate
from admin_api.requests.refusals import RefusalCounts
from admin_api.requests.request_rate import RequestRate
from tests.admin_api.world import World

SECOND_NS = 1_000_000_000


class Host:
    """A client address and a clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.app: ASGIApp = RequestRate(
            PlainTextResponse("done"),
            requests_per_second=10,
            refusals=RefusalCounts(),
            now_ns=lambda: self.now_ns,
        )

    async def ask(self, times: int, address: str = "10.0.0.1") -> list[int]:
        """The statuses of this number of requests at this moment."""
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://sidecar") as client:
            return [(await client.get("/")).status_code for _ in range(times)]


async def test_a_host_gets_its_rate_and_what_it_has_saved_up() -> None:
    """Two seconds' worth at once, then ten a second."""
    host = Host()

    assert await host.ask(22) == [200] * 20 + [429] * 2
    host.now_ns += SECOND_NS
    assert await host.ask(12) == [200] * 10 + [429] * 2
    host.now_ns += 100 * SECOND_NS
    assert await host.ask(22) == [200] * 20 + [429] * 2


async def test_another_host_is_not_held_up() -> None:
    """Every address has a rate of its own."""
    host = Host()
    await host.ask(30)

    assert await host.ask(1, "10.0.0.2") == [200]


async def test_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API forgets those whose last request is oldest."""
    monkeypatch.setattr(request_rate, "MAX_ADDRESSES", 2)
    host = Host()
    await host.ask(20, "a")
    await host.ask(20, "b")
    assert await host.ask(1, "a") == [429]
    await host.ask(1, "c")

    assert await host.ask(1, "a") == [429]
    assert await host.ask(1, "b") == [200]


async def test_the_refusal_has_a_reason(world: World) -> None:
    """It has the shape of every error, and says when to come back."""
    async with world.client(requests_per_second=1) as client:
        answers = [await client.get("/quota/v1/ready") for _ in range(50)]

    refusal = next(answer for answer in answers if answer.status_code == 429)
    assert refusal.headers["retry-after"] == "1"
    assert refusal.json()["reason"].startswith("More than 1 requests per second")
