"""A lookup through the relay names gates, whatever its caller says of listeners."""

from __future__ import annotations

import httpx
import pytest

from tests.admin_api.world import Broker, World

TOPIC = "/lookup/v2/topic/persistent/public/default/a%2Fb"
PATHS = [TOPIC, f"{TOPIC}/bundle", "/lookup/v2/topic/non-persistent/public/default/t"]
SPELLINGS = [
    "listenerName=internal",
    "listenerName=internal&listenerName=internal",
    "listener%4Eame=internal",
    "%6cistenerName=internal",
    "listenername=internal",
    "LISTENERNAME=internal",
    "listenerName",
    "listenerName=",
    "listenerName==internal",
    "listenerName+=internal",
    "+listenerName=internal",
    "listenerName%00=internal",
    "&&listenerName=internal&",
]


@pytest.mark.parametrize("query", ["", *SPELLINGS])
async def test_the_query_names_the_gates_listener_and_no_other(
    client: httpx.AsyncClient, broker: Broker, query: str
) -> None:
    """This holds for any spelling and kind of lookup; other parts of the query stay."""
    for path in PATHS:
        await client.get(f"{path}?authoritative=true&{query}")

    asked_for = b"?authoritative=true&listenerName=external"
    assert [asked.url.raw_path for asked in broker.asked] == [
        path.encode() + asked_for for path in PATHS
    ]
    for asked in broker.asked:
        assert asked.headers.get_list("x-pulsar-listenername") == ["external"]


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Pulsar-ListenerName", "internal")],
        [("x-pulsar-listenername", "internal"), ("X-PULSAR-LISTENERNAME", "internal")],
    ],
)
async def test_so_does_the_header(
    client: httpx.AsyncClient, broker: Broker, headers: list[tuple[str, str]]
) -> None:
    """It stands once; other headers stay."""
    await client.get(TOPIC, headers=[*headers, ("X-Mine", "1")])

    (asked,) = broker.asked
    assert asked.headers.get_list("x-pulsar-listenername") == ["external"]
    assert asked.headers["x-mine"] == "1"


@pytest.mark.parametrize(
    ("location", "given"),
    [
        ("?authoritative=true", "?authoritative=true&listenerName=external"),
        ("", "?listenerName=external"),
        ("?listenerName=internal#f", "?listenerName=external"),
    ],
)
async def test_a_redirect_asks_for_the_gates_listener_too(
    client: httpx.AsyncClient, broker: Broker, location: str, given: str
) -> None:
    """The broker that is named is asked by the caller himself."""
    headers = {"Location": f"http://b:8080/lookup/v2/topic/x{location}", "X-Mine": "1"}
    broker.answer = lambda _: httpx.Response(307, headers=headers)
    answer = await client.get(TOPIC)

    assert answer.headers["location"] == f"http://b:8080/lookup/v2/topic/x{given}"
    assert answer.headers["x-mine"] == "1"


async def test_other_paths_and_their_redirects_are_left_alone(
    client: httpx.AsyncClient, broker: Broker
) -> None:
    """A topic's policies may well know a listenerName."""
    location = "http://b:8080/admin/v2/x?listenerName=y"
    broker.answer = lambda _: httpx.Response(307, headers={"Location": location})
    answer = await client.get("/admin/v2/clusters?listenerName=mine")

    assert broker.asked[0].url.query == b"listenerName=mine"
    assert "x-pulsar-listenername" not in broker.asked[0].headers
    assert answer.headers["location"] == location


async def test_the_listener_is_configured(world: World, broker: Broker) -> None:
    """Empty leaves it to the caller, for brokers without gates."""
    async with world.client(relay=broker.relay, gate_listener="gates") as client:
        await client.get(f"{TOPIC}?listenerName=internal")
    async with world.client(relay=broker.relay, gate_listener="") as client:
        await client.get(f"{TOPIC}?listenerName=internal")

    assert [asked.url.query for asked in broker.asked] == [
        b"listenerName=gates",
        b"listenerName=internal",
    ]
