"""A limit is understood in every spelling that it has, or refused by name: it never becomes no limit."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.admin_api.world import World

GROUP = "/admin/v2/resourcegroups/orders"
RATES = ["publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes"]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("publishRateInmsgs", "publishRateInMsgs"),
        ("PublishRateInbytes", "publishRateInBytes"),
        ("DispatchRateInmsgs", "dispatchRateInMsgs"),
        ("DispatchRateInbytes", "dispatchRateInBytes"),
        ("PublishRateInMsgs", "publishRateInMsgs"),
        ("PublishRateInBytes", "publishRateInBytes"),
        ("DispatchRateInMsgs", "dispatchRateInMsgs"),
        ("DispatchRateInBytes", "dispatchRateInBytes"),
        ("PublishRatelimitinmsgs", "publishRateInMsgs"),
        ("PublishRatelimitinbytes", "publishRateInBytes"),
        ("DispatchRatelimitinmsgs", "dispatchRateInMsgs"),
        ("DispatchRatelimitinbytes", "dispatchRateInBytes"),
        *((name, name) for name in RATES),
    ],
)
@pytest.mark.parametrize("path", [GROUP, "/admin/v2/resourcegroup/orders"])
async def test_pip_82s_own_spellings_limit(
    client: httpx.AsyncClient, spelling: str, name: str, path: str
) -> None:
    """The spellings are those of PIP-82's requests and answers."""
    assert (await client.put(path, json={spelling: 50})).status_code == 204
    found = (await client.get(GROUP)).json()
    assert {rate: found[rate] for rate in RATES} == dict.fromkeys(RATES, -1) | {name: 50}


@pytest.mark.parametrize(
    "field",
    [
        "publishRateInMsg",
        "publishRate",
        "publish_rate_in_msgs",
        "publishThrottlingRateInMsg",
        "Law",
        "burst",
        "name",
        "",
        " publishRateInMsgs",
        "publishRateInMsgs\u200b",
        "publi\u017fhRateInMsgs",
        "\ud800",
        "\x1b[2J",
    ],
)
@pytest.mark.parametrize("value", [50, -1, 0, "x", False, [], {}, {"a": 1}])
async def test_an_unknown_field_with_a_value_is_refused_by_name(
    client: httpx.AsyncClient, world: World, field: str, value: object
) -> None:
    """Together with what is known: nothing has changed."""
    # In ASCII, since half of a letter cannot be encoded.
    body = json.dumps({"publishRateInMsgs": 50, field: value})
    refused = await client.put(GROUP, content=body)

    assert refused.status_code == 400
    reason = refused.json()["reason"]
    assert "unknown field; known are publishRateInMsgs, publishRateInBytes, " in reason
    assert reason.isprintable()
    assert field in reason or not field.isprintable()
    assert not world.views.shown.groups


async def test_an_unknown_field_without_a_value_is_none(client: httpx.AsyncClient) -> None:
    """A later release of Pulsar's tools may know more fields, and leave them out so."""
    body = {"publishRateInMsgs": 50, "storageQuotaInBytes": None}
    assert (await client.put(GROUP, json=body)).status_code == 204


@pytest.mark.parametrize(
    "name", ["replicationDispatchRateInMsgs", "ReplicationDispatchRateInbytes"]
)
async def test_pulsars_limits_of_replication_are_known_and_not_promised(
    client: httpx.AsyncClient, world: World, name: str
) -> None:
    """Pulsar 4.1 and later has them: not limited is understood, a limit would not hold."""
    for value in (None, -1, "-1"):
        assert (await client.put(GROUP, json={name: value})).status_code == 204
    for value in (0, 5, "x", True):
        refused = await client.put(GROUP, json={name: value, "publishRateInMsgs": 1})
        assert refused.status_code == 400
        reason = refused.json()["reason"].lower()
        assert reason.startswith(f"{name.lower()}: replication is exempt here")
    assert world.views.shown.groups["orders"].group.limits.publish_messages is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"publishRateInMsgs": 50, "PublishRateInMsgs": -1}',
        b'{"PublishRateInmsgs": 50, "PublishRatelimitinmsgs": 50}',
        b'{"publishRateInMsgs": 50, "publishRateInMsgs": -1}',
        b'{"publishRateInMsgs": 50, "publish\\u0052ateInMsgs": -1}',
        b'{"publishRateInMsgs": 50, "x": {"a": 1, "a": 1}}',
    ],
)
async def test_a_field_that_stands_twice_is_refused(
    client: httpx.AsyncClient, world: World, body: bytes
) -> None:
    """Two spellings count as one field: no reader must choose."""
    refused = await client.put(GROUP, content=body)
    assert refused.status_code == 400
    assert "stands twice" in refused.json()["reason"]
    assert not world.views.shown.groups


async def test_of_many_mistakes_a_few_are_told(client: httpx.AsyncClient) -> None:
    """The reason says how many more there are."""
    refused = await client.put(GROUP, json={f"x{number}": 1 for number in range(4_000)})
    assert refused.status_code == 400
    assert refused.json()["reason"].endswith("; and 3,995 more fields")
    assert len(refused.text) < 2_000
    refused = await client.put(GROUP, json={f"x{number}": 1 for number in range(6)})
    assert refused.json()["reason"].endswith("; and 1 more field")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/quota/v1/persistent/public/default/t/publishRate", {"publishRateInMsgs": 5}),
        ("POST", "/quota/v1/persistent/public/default/t/dispatchRate", {"publishRateInMsgs": 5}),
        ("PUT", "/quota/v1/cluster/specification", {"publishRateInMsgs": 5}),
        ("PUT", "/quota/v1/log-level", {"level": "debug", "for": "ever"}),
        ("POST", "/quota/v1/groups/orders/preview", {"rate": 5}),
    ],
)
async def test_so_is_it_with_every_other_body(
    world: World, method: str, path: str, body: dict[str, object]
) -> None:
    """No body sets a limit by an unknown name."""
    async with world.client(cluster_group="all") as client:
        paths = client.get("/openapi.json")
        known = (await paths).json()["paths"]
        if path.endswith("/preview"):
            path = next(each for each in known if "/preview/" in each).replace("{name}", "orders")
        refused = await client.request(method, path, json=body)
    assert refused.status_code == 400, refused.text
    assert "unknown field; known are " in refused.json()["reason"]
    assert not world.views.shown.groups
    assert not world.topic_limits.known()
