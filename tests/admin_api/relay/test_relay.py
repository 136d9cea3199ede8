"""A listed request goes to the broker, and its answer comes back as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from admin_api.routes import relay
from tests.admin_api.keys import access, token
from tests.admin_api.world import Broker, World

TOPIC = "/admin/v2/persistent/public/default/a%2Fb%3Fc%25/partitions"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", f"{TOPIC}?checkAllowAutoCreation=true&x=%20"),
        ("GET", "/admin/v2/tenants"),
        ("PUT", "/admin/v2/namespaces/public/default"),
        ("POST", "/admin/v2/tenants/public"),
        ("DELETE", "/admin/v2/namespaces/public/default/0x00000000_0x40000000"),
    ],
)
async def test_method_path_query_body_and_credentials_arrive_untouched(
    client: httpx.AsyncClient, broker: Broker, method: str, target: str
) -> None:
    """Nothing is decoded, added or left out, apart from what concerns one connection."""
    headers = {"Authorization": "Bearer T", "X-Mine": "1", "Accept-Encoding": "zstd", "TE": "x"}
    await client.request(method, target, content=b'{"a" :1}', headers=headers)

    (asked,) = broker.asked
    assert (asked.method, asked.url.raw_path) == (method, target.encode())
    assert asked.content == b'{"a" :1}'
    assert asked.headers.get_list("content-length") == ["8"]
    assert asked.headers["host"] == "broker:8080"
    assert (asked.headers["authorization"], asked.headers["x-mine"]) == ("Bearer T", "1")
    assert asked.headers["accept-encoding"] == "zstd"
    assert "te" not in asked.headers


async def test_the_answer_comes_back_untouched(client: httpx.AsyncClient, broker: Broker) -> None:
    """Status, headers twice the same, and the bytes as they were coded."""
    headers = [("X-Twice", "a"), ("X-Twice", "b"), ("Content-Encoding", "x"), ("Connection", "y")]
    broker.answer = lambda _: httpx.Response(418, headers=headers, content=b"\x1f\x8b")

    answer = await client.get("/admin/v2/clusters")

    assert (answer.status_code, answer.content) == (418, b"\x1f\x8b")
    assert answer.headers.get_list("x-twice") == ["a", "b"]
    assert answer.headers["content-encoding"] == "x"
    assert "connection" not in answer.headers


async def test_a_redirect_is_the_callers_to_follow(
    client: httpx.AsyncClient, broker: Broker
) -> None:
    """It names the broker that owns the topic."""
    location = "http://other:8080/admin/v2/x"
    broker.answer = lambda _: httpx.Response(307, headers={"Location": location})

    answer = await client.get(TOPIC)

    assert (answer.status_code, answer.headers["location"]) == (307, location)
    assert len(broker.asked) == 1


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ReadTimeout("late")])
async def test_a_broker_that_does_not_answer(
    client: httpx.AsyncClient, broker: Broker, error: httpx.HTTPError
) -> None:
    """502 with the reason."""

    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    broker.answer = fail
    answer = await client.get("/admin/v2/clusters")

    assert answer.status_code == 502
    assert answer.json()["reason"].startswith(f"The broker does not answer ({type(error).__name__}")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/admin/v2/resourcegroups/orders"),
        ("PATCH", "/admin/v2/namespaces/public/default/resourcegroup"),
        ("GET", "/admin/v2/tenants/public/resourcegroup/orders"),
    ],
)
async def test_our_own_paths_never_pass(
    client: httpx.AsyncClient, broker: Broker, method: str, path: str
) -> None:
    """An unknown method does not pass either."""
    assert (await client.request(method, path)).status_code == 405
    assert not broker.asked


@pytest.mark.parametrize("path", ["/status.html", "/metrics/", "/ws/v2/producer/x", "/lookupx"])
async def test_other_paths_are_not_relayed(
    client: httpx.AsyncClient, broker: Broker, path: str
) -> None:
    """The broker's address shows more than its admin REST; ours does not."""
    assert (await client.get(path)).status_code == 404
    assert not broker.asked


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_has_a_bound(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    """It may announce its length or not."""
    monkeypatch.setattr(relay, "MAX_RELAYED_BYTES", 10)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"1234"

    content = b"1234" * 3 if announced else pieces()
    refused = await client.put("/admin/v2/tenants/t", content=content)

    assert (refused.status_code, refused.json()["reason"][:24]) == (413, "The body is larger than ")


async def test_with_access_control_nothing_passes_without_a_token(
    world: World, broker: Broker
) -> None:
    """The broker gets the token as it is, and decides what it may do."""
    async with world.client(relay=broker.relay, access=access()) as client:
        assert (await client.get("/admin/v2/clusters")).status_code == 401
        assert not broker.asked
        headers = {"Authorization": f"Bearer {token('viewer')}"}
        assert (await client.get("/admin/v2/clusters", headers=headers)).status_code == 204
    assert broker.asked[0].headers["authorization"] == headers["Authorization"]


async def test_without_a_relay_nothing_passes(world: World) -> None:
    """admin_pass_through = false."""
    async with world.client() as client:
        answer = await client.get("/admin/v2/clusters")

    assert answer.status_code == 404
    assert answer.json() == {"reason": "Nothing answers under /admin/v2/clusters"}
