"""A bad request changes nothing, and its reason names the field and the fix."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.admin_api.world import World

GROUPS = "/admin/v2/resourcegroups"
MESSAGES = (
    "must be a number from 0 to 2147483647 with at most three decimals, or -1 for not limited"
)
BYTES = "must be a whole number from 0 to 9223372036854775807, or -1 for not limited"


@pytest.mark.parametrize(
    "value",
    [
        *(-5, -2, -0.5, 1.0005, True, False, "abc", "", "1.0005", "-0.5", "1e3", "٣", [], {}),
        *(2**31, -(2**31) - 1, 1e300, 2147483647.5),
    ],
)
async def test_bad_rates(
    client: httpx.AsyncClient, world: World, orders: str, value: object
) -> None:
    """Pulsar stores -5, and 1 for 1.0005; here both are refused."""
    before = await world.store.read_group(orders)

    refused = await client.put(f"{GROUPS}/{orders}", json={"publishRateInMsgs": value})

    assert refused.status_code == 400
    assert refused.json() == {
        "reason": f"publishRateInMsgs: {MESSAGES}, but is {json.dumps(value)[:40]}"
    }
    assert await world.store.read_group(orders) == before


async def test_bytes_are_a_java_long(client: httpx.AsyncClient) -> None:
    """One more than the largest is out of range."""
    refused = await client.put(f"{GROUPS}/rg1", json={"dispatchRateInBytes": 2**63})

    assert refused.json() == {"reason": f"dispatchRateInBytes: {BYTES}, but is 9223372036854775808"}


async def test_every_bad_field_is_named(client: httpx.AsyncClient) -> None:
    """One answer names both mistakes of a request."""
    body = {"publishRateInMsgs": -5, "law": "mine", "weights": [], "overshootPolicy": 3}
    body |= {"partitionPolicy": "x"}

    refused = await client.put(f"{GROUPS}/rg1", json=body)

    reasons = refused.json()["reason"].split("; ")
    assert [reason.split(":")[0] for reason in reasons] == list(body)
    assert reasons[2] == "weights: must be one of equal, topics, but is []"
    assert reasons[4] == 'partitionPolicy: must be one of hold, safe, stop, but is "x"'
    assert (await client.get(f"{GROUPS}/rg1")).status_code == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "The body is empty"),
        (b"  \n", "The body is empty"),
        (b"null", "The body is null"),
        (b"[]", "The body is an array"),
        (b'"x"', "The body is a string"),
        (b"true", "The body is a boolean"),
        (b"7", "The body is a number"),
        (b"{", "The body is not JSON"),
        (b"{'a': 1}", "The body is not JSON"),
        (b'{"publishRateInMsgs": NaN}', "The body is not JSON: NaN is not a JSON number"),
        (b'{"publishRateInMsgs": ' + b"9" * 5_000 + b"}", "The body is not JSON"),
        (b"[" * 60_000, "The body is not JSON"),
        (b"\xff\xfe\x00", "The body is not JSON"),
        (b'{"law": "\\ud800"}', "law: must be one of"),
    ],
)
async def test_bad_bodies(client: httpx.AsyncClient, body: bytes, reason: str) -> None:
    """Where Pulsar answers 500 or plain text, the answer is 400 and a reason."""
    refused = await client.put(f"{GROUPS}/rg1", content=body)

    assert refused.status_code == 400
    assert refused.json()["reason"].startswith(reason)
    assert (await client.get(GROUPS)).json() == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "%2E",
        "%2E%2E",
        "...",
        "a%2Fb",
        "a%2fb",
        "a%252Fb",
        "a/b",
        "a%00b",
        "a%0Ab",
        "a%7F",
        "a%20b",
        "%E2%80%AE",
        "x" * 256,
    ],
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_bad_names(client: httpx.AsyncClient, name: str, method: str) -> None:
    """A name is checked before anything else; with a bad one, brokers of Pulsar fail to start."""
    refused = await client.request(method, f"{GROUPS}/{name}", content=b"no JSON")

    assert refused.status_code == 400
    assert refused.json()["reason"].startswith("ResourceGroup name is not valid: use")
    assert (await client.get(GROUPS)).json() == []


@pytest.mark.parametrize("name", ["a", "A-1_b.c:d=e", "x" * 255, "list"])
async def test_good_names(client: httpx.AsyncClient, name: str) -> None:
    """A name that Pulsar accepts for a tenant is good for a group."""
    assert (await client.put(f"{GROUPS}/{name}", json={})).status_code == 204
    assert (await client.get(GROUPS)).json() == [name]


@pytest.mark.parametrize("path", [f"{GROUPS}/rg1", "/admin/v2/tenants/public/resourcegroup/rg1"])
async def test_large_body_is_413(client: httpx.AsyncClient, path: str) -> None:
    """64 KiB are enough for every definition."""
    refused = await client.put(path, content=b" " * (64 * 1024 + 1))

    assert refused.status_code == 413
    assert refused.json() == {"reason": "The body is larger than 65536 bytes"}


async def test_largest_body_is_read(client: httpx.AsyncClient) -> None:
    """The limit itself is still allowed."""
    body = b'{"publishRateInMsgs":1}'.ljust(64 * 1024)

    assert (await client.put(f"{GROUPS}/rg1", content=body)).status_code == 204
