"""A request to a broker is answered or an error of a port, whatever names clients choose."""

from __future__ import annotations

import httpx
import pytest

from coordinator.adapters.broker.web_service import accepted, asked
from coordinator.ports import BrokerUnreachable, NotFound, Refused

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
