"""The group among a namespace's policies: attached once the broker has made it, and read with them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from admin_api.changes import definitions
from admin_api.routes import relay
from tests.admin_api.keys import access, token
from tests.admin_api.world import Broker, World

PATH = "/admin/v2/namespaces/shop/made"
GROUP = f"{PATH}/resourcegroup"


@pytest.fixture
async def client(world: World, broker: Broker) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a sidecar with a group, beside the broker."""
    async with world.client(relay=broker.relay) as client:
        await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 1})
        yield client


async def attached(client: httpx.AsyncClient) -> str:
    """Return the group that the namespace is attached to."""
    return (await client.get(GROUP)).text


@pytest.mark.shows("pip-82/group-in-namespace-put")
async def test_a_group_in_the_body_is_attached_and_kept_from_the_broker(
    client: httpx.AsyncClient, broker: Broker
) -> None:
    """The broker gets all other policies."""
    policies = {"bundles": {"numBundles": 4}, "resource_group_name": "orders"}
    answer = await client.put(PATH, json=policies)

    assert answer.status_code == 204
    assert broker.asked[0].read() == b'{"bundles": {"numBundles": 4}}'
    assert broker.asked[0].headers["content-length"] == "30"
    assert await attached(client) == "orders"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"null",
        b'{"bundles": {"numBundles": 4}}',
        b'{"resource_group_name":null}',
    ],
)
async def test_a_body_without_a_group_goes_on_as_it_is(
    client: httpx.AsyncClient, broker: Broker, content: bytes
) -> None:
    """The broker judges it."""
    assert (await client.put(PATH, content=content)).status_code == 204
    assert broker.asked[0].read() == content


async def test_a_namespace_that_is_not_made_is_not_attached(
    client: httpx.AsyncClient, broker: Broker, world: World
) -> None:
    """It may exist already, and in another group."""
    broker.answer = lambda _: httpx.Response(409, json={"reason": "Namespace already exists"})
    answer = await client.put(PATH, json={"resource_group_name": "orders"})

    assert answer.status_code == 409
    broker.answer = lambda _: httpx.Response(204)
    groups = (await client.get("/quota/v1/groups")).json()
    assert groups[0]["attachments"]["namespaces"] == []


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"resource_group_name": 7}', 400),
        (b'{"resource_group_name": ""}', 400),
        (b'{"resource_group_name": "a/b"}', 400),
        (b'{"resource_group_name": "orders", "resource_group_name": "gold"}', 400),
        (b'{"resource_group_name": "orders"', 400),
        (b'{"resource\\u005fgroup_name": "orders"', 400),
        (b"\x00", 400),
        (b'{"resource_group_name": "no-such-group"}', 412),
        (b'{"resource_group_name": "' + b"x" * relay.MAX_RELAYED_BYTES + b'"}', 413),
    ],
)
async def test_a_group_that_cannot_be_attached_makes_no_namespace(
    client: httpx.AsyncClient, broker: Broker, content: bytes, status: int
) -> None:
    """The refusal comes before the broker hears of it, with a reason."""
    answer = await client.put(PATH, content=content)

    assert answer.status_code == status
    assert answer.json()["reason"]
    assert not broker.asked


async def test_who_may_not_attach_makes_no_namespace_with_a_group(
    world: World, broker: Broker
) -> None:
    """Without a group the broker decides, as for every other request."""
    headers: dict[str, Any] = {"Authorization": f"Bearer {token('viewer')}"}
    async with world.client(relay=broker.relay, access=access()) as client:
        body = {"resource_group_name": "orders"}
        assert (await client.put(PATH, json=body, headers=headers)).status_code == 403
        assert not broker.asked
        assert (await client.put(PATH, json={}, headers=headers)).status_code == 204


async def test_policies_are_read_with_the_group(client: httpx.AsyncClient, broker: Broker) -> None:
    """All else is the broker's, asked for uncompressed; pulsar-admin shows it as Pulsar's own."""
    await client.put(PATH, json={"resource_group_name": "orders"})
    policies = {"bundles": {"numBundles": 4}, "resource_group_name": None}
    broker.answer = lambda _: httpx.Response(200, json=policies, headers={"X-Mine": "1"})

    answer = await client.get(PATH, headers={"Accept-Encoding": "gzip"})

    assert answer.json() == policies | {"resource_group_name": "orders"}
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.headers["x-mine"] == "1"
    assert broker.asked[-1].headers.get_list("accept-encoding") == ["identity"]


@pytest.mark.parametrize(
    ("status", "content"),
    [
        *itertools.product((200, 307, 404), (b"", b"[1]", b"{", b"\xff")),
        (404, b'{"reason": "Namespace not found"}'),
    ],
)
async def test_an_answer_without_policies_is_read_as_it_is(
    client: httpx.AsyncClient, broker: Broker, status: int, content: bytes
) -> None:
    """A redirect to another broker, an error with or without a reason, or none that we know."""
    await client.put(PATH, json={"resource_group_name": "orders"})
    broker.answer = lambda _: httpx.Response(status, content=content)

    answer = await client.get(PATH)

    assert (answer.status_code, answer.content) == (status, content)


@pytest.mark.parametrize("path", [PATH, f"{PATH}/permissions", "/admin/v2/namespaces/shop"])
async def test_what_has_no_group_is_read_as_the_broker_says_it(
    client: httpx.AsyncClient, broker: Broker, path: str
) -> None:
    """A namespace that is not attached, and all that is no namespace's policies."""
    policies = b'{"resource_group_name" : null}'
    broker.answer = lambda _: httpx.Response(200, content=policies)

    assert (await client.get(path)).content == policies


async def test_a_broker_that_goes_away_while_policies_are_read(
    client: httpx.AsyncClient, broker: Broker
) -> None:
    """502, as if it had not answered."""
    await client.put(PATH, json={"resource_group_name": "orders"})
    broker.breaks_off = True

    assert (await client.get(PATH)).status_code == 502


async def test_what_could_not_be_attached_afterwards_makes_no_namespace(
    client: httpx.AsyncClient, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group with children, a name that no attachment can have, and one owner too many."""
    await client.put("/admin/v2/resourcegroups/part", json={"parent": "orders"})
    shared = await client.put(PATH, json={"resource_group_name": "orders"})
    long = await client.put(
        f"/admin/v2/namespaces/shop/{'n' * 256}", json={"resource_group_name": "part"}
    )
    monkeypatch.setattr(definitions, "ATTACHMENTS_MAX", 0)
    full = await client.put(PATH, json={"resource_group_name": "part"})

    assert [answer.status_code for answer in (shared, long, full)] == [409, 412, 409]
    assert shared.json()["reason"].startswith("orders shares its limit among part")
    assert long.json()["reason"].startswith("Namespace name is not valid")
    assert full.json()["reason"].startswith("0 owners are attached to groups")
    assert not broker.asked


async def test_a_namespace_that_is_made_and_not_attached_is_told_with_what_is_left_to_do(
    client: httpx.AsyncClient, broker: Broker, world: World
) -> None:
    """The store may fail, or the group go, while the broker makes it."""

    def make_and_lose_the_store(_: httpx.Request) -> httpx.Response:
        world.store.reachable = False
        return httpx.Response(204)

    broker.answer = make_and_lose_the_store
    lost = await client.put(PATH, json={"resource_group_name": "orders"})
    world.store.reachable = True
    attaching = f"; attach it with PUT {GROUP}/orders"

    assert lost.status_code == 503
    reason = lost.json()["reason"]
    assert reason.startswith("shop/made was made, but attaching it to orders failed: ZooKeeper")
    assert reason.endswith(attaching)

    def make_and_lose_the_group(_: httpx.Request) -> httpx.Response:
        world.store._groups.clear()
        return httpx.Response(204)

    broker.answer = make_and_lose_the_group
    gone = await client.put(PATH, json={"resource_group_name": "orders"})
    assert gone.status_code == 412
    assert gone.json()["reason"] == (
        "shop/made was made, but attaching it to orders failed: ResourceGroup does not exist"
        + attaching
    )
