"""The audit trail names the author of each change, and a change can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from admin_api.changes.echo import Echo
from tests.admin_api.keys import access, token
from tests.admin_api.test_attachments import NAMESPACE, SUBSCRIPTION, TENANT
from tests.admin_api.world import World

GROUPS = "/admin/v2/resourcegroups"
AUDIT = "/quota/v1/audit"


async def trail(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """All entries, newest first."""
    found: list[dict[str, Any]] = (await client.get(AUDIT)).json()
    return found


async def roll_back(client: httpx.AsyncClient, entry_id: int) -> httpx.Response:
    """Roll an entry back."""
    return await client.post(f"{AUDIT}/{entry_id}/rollback")


async def test_every_change_is_written_down(client: httpx.AsyncClient, orders: str) -> None:
    """The entry has the subject, the value before and the value after."""
    await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 1, "law": "max-min"})
    await client.post(f"{TENANT}/orders")
    await client.post(f"{NAMESPACE}/orders")
    await client.delete(NAMESPACE)
    await client.delete(TENANT)
    await client.delete(f"{GROUPS}/orders")

    entries = await trail(client)

    assert [entry["id"] for entry in entries] == [6, 5, 4, 3, 2, 1, 0]
    assert [(e["subject"], e["before"], e["after"]) for e in entries[1:5]] == [
        ("tenants/public", "orders", None),
        ("namespaces/public/default", "orders", None),
        ("namespaces/public/default", None, "orders"),
        ("tenants/public", None, "orders"),
    ]
    deleted, changed, created = entries[0], entries[5], entries[6]
    assert {e["subject"] for e in (deleted, changed, created)} == {"groups/orders"}
    assert (created["before"], deleted["after"]) == (None, None)
    assert created["after"] == changed["before"]
    assert changed["before"]["publishRateInMsgs"] == 3_000
    assert changed["after"] == deleted["before"]
    assert changed["after"]["publishRateInMsgs"] == 1
    assert changed["after"]["overshootPolicy"] == "balanced"
    assert (await client.get(f"{AUDIT}/1")).json() == changed


async def test_who_did_it_is_written_down(world: World) -> None:
    """The role of the token and the host it came from; never the token."""
    async with world.client(token("admin"), access=access()) as client:
        await client.put(f"{GROUPS}/orders", json={})
        answer = await client.get(AUDIT)

    (entry,) = answer.json()
    assert (entry["actor"], entry["address"], entry["undoes"]) == ("admin", "10.1.2.3", None)
    assert token("admin") not in answer.text


async def test_without_access_control_a_change_is_anonymous(
    client: httpx.AsyncClient, orders: str
) -> None:
    """The address is known all the same."""
    (entry,) = await trail(client)

    assert (entry["actor"], entry["address"]) == ("anonymous", "10.1.2.3")


async def test_what_changes_nothing_is_not_written_down(
    client: httpx.AsyncClient, orders: str
) -> None:
    """The same definition, the same attachment, a refusal."""
    await client.post(f"{TENANT}/orders")
    before = await trail(client)

    await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 3_000})
    await client.post(f"{TENANT}/orders")
    await client.delete(NAMESPACE)
    await client.delete(f"{GROUPS}/orders")
    await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": "many"})

    assert await trail(client) == before


async def test_the_trail_comes_in_pages(client: httpx.AsyncClient, orders: str) -> None:
    """The newest first; before says where to go on."""
    for number in range(4):
        await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": number})

    first = (await client.get(f"{AUDIT}?limit=2")).json()
    second = (await client.get(f"{AUDIT}?limit=2&before={first[-1]['id']}")).json()

    assert [entry["id"] for entry in first + second] == [4, 3, 2, 1]


async def test_a_change_of_a_group_is_rolled_back(client: httpx.AsyncClient, orders: str) -> None:
    """All its fields, and the rolling back is a change of its own that can be rolled back."""
    await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 1, "partitionPolicy": "stop"})

    assert (await roll_back(client, 1)).status_code == 204
    assert (await client.get(f"{GROUPS}/orders")).json()["publishRateInMsgs"] == 3_000
    assert (await client.get("/quota/v1/groups/orders")).json()["partitionPolicy"] == "hold"
    newest = (await trail(client))[0]
    assert (newest["id"], newest["undoes"], newest["subject"]) == (2, 1, "groups/orders")

    assert (await roll_back(client, 2)).status_code == 204
    assert (await client.get(f"{GROUPS}/orders")).json()["publishRateInMsgs"] == 1


async def test_a_creation_and_a_deletion_are_rolled_back(
    client: httpx.AsyncClient, orders: str
) -> None:
    """Gone, and there again as it was."""
    assert (await roll_back(client, 0)).status_code == 204
    assert (await client.get(GROUPS)).json() == []

    assert (await roll_back(client, 1)).status_code == 204
    assert (await client.get(f"{GROUPS}/orders")).json()["publishRateInMsgs"] == 3_000


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        (TENANT, "tenants/public"),
        (NAMESPACE, "namespaces/public/default"),
        ("/quota/v1/roles/team-*/resourcegroup", "roles/team-*"),
        ("/quota/v1/default-role/resourcegroup", "roles/"),
        (SUBSCRIPTION, "subscriptions/persistent/public/default/orders/audit log"),
        ("/quota/v1/clusters/west/replication/resourcegroup", "clusters/west"),
    ],
)
async def test_attachments_are_rolled_back(
    client: httpx.AsyncClient, orders: str, path: str, subject: str
) -> None:
    """Detached, moved, attached anew; the trail names each owner by its kind."""
    await client.put(f"{GROUPS}/bills", json={})
    await client.post(f"{path}/orders")
    await client.post(f"{path}/bills")
    moved = (await trail(client))[0]
    assert (moved["subject"], moved["before"], moved["after"]) == (subject, "orders", "bills")

    assert (await roll_back(client, 3)).status_code == 204
    assert (await client.get(path)).text == "orders"
    await client.delete(path)
    assert (await roll_back(client, 5)).status_code == 204
    assert (await client.get(path)).text == "orders"
    assert (await roll_back(client, 6)).status_code == 204
    assert (await client.get(path)).text == ""


async def test_what_changed_since_is_not_rolled_back(
    client: httpx.AsyncClient, orders: str
) -> None:
    """Rolling back an old change would undo the newer one as well."""
    await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 1})
    await client.put(f"{GROUPS}/orders", json={"publishRateInBytes": 2})
    await client.put(f"{GROUPS}/bills", json={})
    await client.post(f"{TENANT}/orders")
    await client.post(f"{TENANT}/bills")
    before = await trail(client)

    for entry_id in (0, 1, 4):
        refused = await roll_back(client, entry_id)
        assert refused.status_code == 409
        assert f"has changed since entry {entry_id}" in refused.json()["reason"]
    in_use = await roll_back(client, 3)

    assert (in_use.status_code, in_use.json()["reason"]) == (
        412,
        "ResourceGroup is in use by public; detach first",
    )
    assert await trail(client) == before


async def test_an_attachment_to_a_group_that_is_gone_is_not_restored(
    client: httpx.AsyncClient, orders: str
) -> None:
    """The reason says what is missing."""
    await client.post(f"{TENANT}/orders")
    await client.delete(TENANT)
    await client.delete(f"{GROUPS}/orders")

    refused = await roll_back(client, 2)

    assert refused.status_code == 409
    assert refused.json()["reason"].startswith("tenants/public cannot be restored")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("entry_id", "status"), [("9", 404), ("-1", 400), ("x", 400)])
async def test_an_entry_that_is_not_there(
    client: httpx.AsyncClient, method: str, entry_id: str, status: int
) -> None:
    """404 for a number, 400 for what is none."""
    path = f"{AUDIT}/{entry_id}" + ("/rollback" if method == "POST" else "")
    refused = await client.request(method, path)

    assert refused.status_code == status
    assert entry_id in refused.json()["reason"] or "entry_id" in refused.json()["reason"]


async def test_what_is_rolled_back_is_an_operation(client: httpx.AsyncClient, orders: str) -> None:
    """Like any other change of a definition or an attachment; a deletion has nothing to settle."""
    await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 1})
    await client.post(f"{TENANT}/orders")
    await client.put(f"{GROUPS}/bills", json={})

    undone = [await roll_back(client, entry_id) for entry_id in (3, 2, 5, 1)]

    assert [answer.status_code for answer in undone] == [204] * 4
    named = [answer.headers.get("Pulsar-Quota-Operation") for answer in undone]
    listed = (await client.get("/quota/v1/operations?group=orders")).json()
    assert named == [None, *(str(each["id"]) for each in reversed(listed[:3]))]
    assert [each["text"] for each in listed[:3]] == [
        "publishRateInMsgs 1 → 3,000",
        "public attached",
        "public detached",
    ]


@pytest.mark.parametrize("made", ["group", "attachment", "topic"])
async def test_the_answer_waits_until_what_is_rolled_back_is_seen(world: World, made: str) -> None:
    """A read right after it shows the change, as after every other."""
    seen: list[str] = []

    class Watched(Echo[Any]):
        async def heard(self, shows: Callable[[Any], bool], change: str) -> None:
            await super().heard(shows, change)
            seen.append(change)

    groups, topics = Watched(world.store.watch), Watched(world.topic_limits.watch)
    async with world.client(groups_seen=groups, topics_seen=topics) as client:
        await client.put(f"{GROUPS}/orders", json={})
        match made:
            case "group":
                await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 1})
            case "attachment":
                await client.post(f"{TENANT}/orders")
            case "topic":
                path = "/quota/v1/persistent/public/default/t/publishRate"
                await client.post(path, json={"publishThrottlingRateInMsg": 5})
        seen.clear()
        assert (await roll_back(client, 1)).status_code == 204

    changes = {
        "group": "groups/orders",
        "attachment": "tenants/public",
        "topic": "limits of persistent://public/default/t",
    }
    assert seen == [changes[made]]
