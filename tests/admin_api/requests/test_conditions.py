"""Compare-and-set for people: ETag, If-Match and If-None-Match."""

from __future__ import annotations

import asyncio

import httpx
import pytest

GROUPS = "/admin/v2/resourcegroups"


async def etag(client: httpx.AsyncClient) -> str:
    """The tag of orders."""
    return (await client.get(f"{GROUPS}/orders")).headers["etag"]


async def limit(client: httpx.AsyncClient) -> int:
    """The limit of orders."""
    return int((await client.get(f"{GROUPS}/orders")).json()["publishRateInMsgs"])


async def test_the_tag_changes_with_the_definition(client: httpx.AsyncClient, orders: str) -> None:
    """PUT answers with the new one, both reads agree, and an attachment changes nothing."""
    first = await etag(client)
    put = await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 1})
    await client.post("/admin/v2/tenants/public/resourcegroup/orders")

    assert put.headers["etag"] == await etag(client) != first
    assert (await client.get("/quota/v1/groups/orders")).headers["etag"] == await etag(client)


async def test_a_change_of_what_was_read_is_made(client: httpx.AsyncClient, orders: str) -> None:
    """One of several tags is enough, and * is any."""
    for tags in (await etag(client), f'"0", {await etag(client)}', "*"):
        headers = {"If-Match": tags}
        done = await client.put(f"{GROUPS}/orders", json={}, headers=headers)
        assert done.status_code == 204, tags
    deleted = await client.delete(f"{GROUPS}/orders", headers={"If-Match": await etag(client)})
    assert deleted.status_code == 204


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_stale_change_is_refused(
    client: httpx.AsyncClient, orders: str, method: str
) -> None:
    """412, the present tag, and nothing has changed."""
    stale = await etag(client)
    await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 1})

    for tags in (stale, f"W/{await etag(client)}"):
        refused = await client.request(
            method, f"{GROUPS}/orders", json={"publishRateInMsgs": 2}, headers={"If-Match": tags}
        )
        assert refused.status_code == 412
        assert "changed since you read it" in refused.json()["reason"]
        assert refused.headers["etag"] == await etag(client)
    assert await limit(client) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_tag_outlives_no_recreation(
    client: httpx.AsyncClient, orders: str, method: str
) -> None:
    """A group that was deleted and created again is another one, be it the same to the letter."""
    stale = await etag(client)
    await client.delete(f"{GROUPS}/orders")
    await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 3_000})

    refused = await client.request(
        method, f"{GROUPS}/orders", json={"publishRateInMsgs": 2}, headers={"If-Match": stale}
    )

    assert refused.status_code == 412
    assert await limit(client) == 3_000


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("tags", ["*", '"1"'])
async def test_a_condition_on_a_group_that_is_not_there(
    client: httpx.AsyncClient, method: str, tags: str
) -> None:
    """A PUT with If-Match never creates."""
    refused = await client.request(method, f"{GROUPS}/orders", json={}, headers={"If-Match": tags})

    assert (refused.status_code, refused.json()["reason"]) == (412, "ResourceGroup does not exist")
    assert (await client.get(GROUPS)).json() == []


async def test_create_only(client: httpx.AsyncClient) -> None:
    """If-None-Match: * is refused the second time."""
    headers = {"If-None-Match": "*"}
    created = await client.put(f"{GROUPS}/orders", json={}, headers=headers)
    again = await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 9}, headers=headers)

    assert (created.status_code, again.status_code) == (204, 412)
    assert again.json()["reason"] == "ResourceGroup already exists"
    assert await limit(client) == -1


@pytest.mark.parametrize(
    "headers",
    [
        {"If-Match": "1"},
        {"If-Match": ""},
        {"If-Match": '"1", 2'},
        {"If-None-Match": '"1"'},
        {"If-Match": "*", "If-None-Match": "*"},
    ],
)
async def test_a_condition_that_cannot_be_understood_is_refused(
    client: httpx.AsyncClient, orders: str, headers: dict[str, str]
) -> None:
    """A condition is never overlooked."""
    refused = await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 9}, headers=headers)

    assert refused.status_code == 400
    assert "Match" in refused.json()["reason"]
    assert await limit(client) == 3_000


async def test_of_many_with_one_tag_one_wins(client: httpx.AsyncClient, orders: str) -> None:
    """All read the same, all write at once."""
    headers = {"If-Match": await etag(client)}
    answers = await asyncio.gather(
        *(
            client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": n}, headers=headers)
            for n in range(10)
        )
    )

    assert sorted(answer.status_code for answer in answers) == [204] + [412] * 9


async def test_counting_with_conditions_loses_nothing(
    client: httpx.AsyncClient, orders: str
) -> None:
    """Three people raise the limit by one, ten times each, and try again when they were too late."""

    async def raise_ten_times() -> None:
        done = 0
        while done < 10:
            read = await client.get(f"{GROUPS}/orders")
            raised = {"publishRateInMsgs": read.json()["publishRateInMsgs"] + 1}
            headers = {"If-Match": read.headers["etag"]}
            put = await client.put(f"{GROUPS}/orders", json=raised, headers=headers)
            assert put.status_code in (204, 412)
            done += put.status_code == 204

    await asyncio.gather(*(raise_ten_times() for _ in range(3)))

    assert await limit(client) == 3_030
