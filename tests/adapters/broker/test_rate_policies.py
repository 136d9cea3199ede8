"""A broker's answers about rates: no such owner, not allowed, and not understood are told apart."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from coordinator.adapters.broker.rate_policies import HttpRatePolicies
from coordinator.native.engine.rate_policy import DISPATCH
from coordinator.ports import BrokerUnreachable, NotFound, PortError, Refused

A = "persistent://t/n/a"
LONG = f"persistent://t/n/{'x' * 70_000}"


def policies(answer: Callable[[httpx.Request], httpx.Response]) -> HttpRatePolicies:
    """The rates of a broker that answers so."""
    return HttpRatePolicies("http://b", DISPATCH, transport=httpx.MockTransport(answer))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, NotFound),
        (401, Refused),
        (403, Refused),
        (404, NotFound),
        (408, BrokerUnreachable),
        (409, Refused),
        (412, Refused),
        (414, NotFound),
        (429, BrokerUnreachable),
        (500, BrokerUnreachable),
        (503, BrokerUnreachable),
    ],
)
async def test_a_question_that_is_not_answered_is_an_error_of_a_port(
    status: int, error: type[PortError]
) -> None:
    """A name that a web server cannot read is one of nothing that a sidecar has set a rate of."""
    async with policies(lambda _: httpx.Response(status, text="why")) as rates:
        with pytest.raises(error, match=f"answered {status}: why") as caught:
            await rates.rate(A)
    assert type(caught.value) is error


@pytest.mark.parametrize("status", [400, 414])
async def test_a_rate_that_is_not_taken_is_refused(status: int) -> None:
    """It is not taken for one of no owner."""
    async with policies(lambda _: httpx.Response(status)) as rates:
        with pytest.raises(Refused) as caught:
            await rates.set_rate(A, "{}")
    assert type(caught.value) is Refused


async def test_a_topic_whose_name_fits_into_no_request_is_not_found() -> None:
    """A client can name one so."""
    async with policies(lambda _: httpx.Response(200)) as rates:
        with pytest.raises(NotFound):
            await rates.rate(LONG)


@pytest.mark.parametrize("headers", [{}, {"location": "http://c/"}, {"location": "http://c:x/"}])
async def test_a_broker_that_sends_on_without_end_or_nowhere_does_not_answer(
    headers: dict[str, str],
) -> None:
    """The path without a place is not asked for at its own root."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(307, headers=headers)

    async with policies(answer) as rates:
        with pytest.raises((BrokerUnreachable, NotFound)):
            await rates.rate(A)
    assert asked == ["http://b/admin/v2/persistent/t/n/a/dispatchRate"] + (
        ["http://c/"] * 3 if headers == {"location": "http://c/"} else []
    )


async def test_topics_that_can_have_no_rate_are_not_listed() -> None:
    """Those of brokers, and those named as a step of a path; of a partitioned one its name is listed."""
    single = [A, f"{A}-partition-0", "persistent://t/n/.", "persistent://t/n/__change_events"]
    listed = {"/admin/v2/persistent/t/n": single, "/admin/v2/persistent/t/n/partitioned": [A]}
    async with policies(lambda asked: httpx.Response(200, json=listed[asked.url.path])) as rates:
        assert await rates.topics("t/n") == (A,)


async def test_a_namespace_may_have_a_longer_name_than_one_that_can_be_attached() -> None:
    """It would escape its tenant's limit otherwise."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200)

    async with policies(answer) as rates:
        assert await rates.rate(f"t/{'n' * 300}") == ""
    assert asked == [f"/admin/v2/namespaces/t/{'n' * 300}/dispatchRate"]
