"""A request to a broker is answered or an error of a port, whatever names clients choose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from coordinator.adapters.broker import web_service
from coordinator.adapters.broker.backlog import HttpBacklogSource
from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.adapters.broker.inventory import HttpInventory
from coordinator.adapters.broker.web_service import accepted, asked
from coordinator.ports import BrokerUnreachable, NotFound, Refused

PATIENCE_S = 10.0

LONG = f"/admin/v2/persistent/t/n/{'x' * 70_000}/stats"
SHORTER = LONG[:9_000]


def broker(answer: httpx.Response | Exception) -> httpx.AsyncClient:
    """The client of a broker that always answers so, or fails."""

    def handle(_: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return httpx.AsyncClient(base_url="http://b", transport=httpx.MockTransport(handle))


async def test_what_has_a_path_that_no_request_can_have_is_not_found() -> None:
    """The broker may be well; a client can name a topic so."""
    async with broker(httpx.Response(200)) as client:
        with pytest.raises(NotFound, match="GET /admin/v2/persistent/t/n/xxx") as caught:
            await asked(client, "GET", LONG, None)
    assert len(str(caught.value)) < 500


async def test_an_error_shows_the_start_of_a_long_path_alone() -> None:
    """Errors become lines of the log, and conditions."""
    async with broker(httpx.Response(414, text="URI Too Long")) as client:
        with pytest.raises(Refused, match="answered 414: URI Too Long") as refused:
            accepted(await asked(client, "GET", SHORTER, None))
    async with broker(httpx.ConnectError("gone")) as client:
        with pytest.raises(BrokerUnreachable, match="ConnectError gone") as unreachable:
            await asked(client, "GET", SHORTER, None)
    assert len(str(refused.value)) < 500
    assert len(str(unreachable.value)) < 500


class Trickle(httpx.AsyncBaseTransport):
    """A broker that begins each answer, and goes on with it for ever."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Begin one."""

        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0.001)

        return httpx.Response(200, content=pieces(), request=request)


async def ask_for_tenants() -> object:
    """As all adapters that ask once."""
    async with HttpInventory("http://b", transport=Trickle()) as inventory:
        return await inventory.tenants()


async def read_counters() -> object:
    """Of all topics."""
    async with MetricsCounters("http://b", transport=Trickle()) as counters:
        return await counters.read()


async def read_summaries() -> object:
    """Of all backlogs."""
    async with HttpBacklogSource("http://b", transport=Trickle()) as source:
        return await source.summaries()


async def read_evictions() -> object:
    """From the broker's metrics."""
    async with HttpBacklogSource("http://b", transport=Trickle()) as source:
        return await source.evictions()


@pytest.mark.parametrize("ask", [ask_for_tenants, read_counters, read_summaries, read_evictions])
async def test_an_answer_without_an_end_is_given_up(
    ask: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its pieces comes in time, and nothing else would ever tell."""
    monkeypatch.setattr(web_service, "_WHOLE_WITHIN_S", 0.05)
    with pytest.raises(BrokerUnreachable, match=r"no whole answer in 0.05 s"):
        async with asyncio.timeout(PATIENCE_S):
            await ask()
