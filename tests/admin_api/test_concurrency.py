"""Several admins at once: no update is lost, and what was written is read."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from admin_api import definitions
from admin_api.app import create_app
from coordinator.adapters.memory.store import MemoryStore
from coordinator.core.model import Rates, ResourceGroup
from coordinator.ports import NOBODY, Catalogue, Origin, Versioned
from tests.admin_api.world import World

GROUPS = "/admin/v2/resourcegroups"
FIELDS = {
    "publishRateInMsgs": 1,
    "publishRateInBytes": 2,
    "dispatchRateInMsgs": 3,
    "dispatchRateInBytes": 4,
    "overshootPolicy": "eager",
    "partitionPolicy": "safe",
}


class SlowStore(MemoryStore):
    """Lets everybody read before anybody writes, as admins on different sidecars do."""

    async def read_group(self, name: str) -> Versioned:
        """Read, and let the others go on before answering."""
        try:
            return await super().read_group(name)
        finally:
            await asyncio.sleep(0)


class BusyStore(MemoryStore):
    """Somebody else changes every group between our read and our write."""

    async def update_group(
        self, group: ResourceGroup, version: int, *, by: Origin = NOBODY
    ) -> Versioned:
        """Lose against the other one."""
        current = await self.read_group(group.name)
        await super().update_group(ResourceGroup(group.name, Rates()), current.version)
        return await super().update_group(group, version, by=by)


def client_of(world: World, store: MemoryStore) -> httpx.AsyncClient:
    """A client of a sidecar with another store; whether it hears of changes is up to the test."""
    app = create_app(replace(world.backend, store=store))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sidecar")


@pytest.mark.parametrize("exists", [False, True])
async def test_concurrent_puts_lose_no_field(world: World, exists: bool) -> None:
    """Everybody sets another field at the same moment; all of them are set in the end."""
    store = SlowStore()
    store.watch(world.views.show)
    async with client_of(world, store) as client:
        if exists:
            await client.put(f"{GROUPS}/rg1", json={})

        answers = await asyncio.gather(
            *(client.put(f"{GROUPS}/rg1", json={key: value}) for key, value in FIELDS.items())
        )

        assert {answer.status_code for answer in answers} == {204}
        assert (await client.get(f"{GROUPS}/rg1")).json() == FIELDS


async def test_put_gives_up_at_last(world: World) -> None:
    """Retries are bounded, and the answer says what happened."""
    store = BusyStore()
    store.watch(world.views.show)
    async with client_of(world, store) as client:
        await client.put(f"{GROUPS}/rg1", json={})

        refused = await client.put(f"{GROUPS}/rg1", json={"publishRateInMsgs": 1})

    assert refused.status_code == 409
    assert "by others at the same time" in refused.json()["reason"]


async def test_answer_waits_for_the_echo(world: World) -> None:
    """A list right after a PUT shows the group, though lists are read from a copy of the store."""
    store = MemoryStore()
    sent: list[Catalogue] = []
    store.watch(sent.append)
    async with client_of(world, store) as client:
        put = asyncio.create_task(client.put(f"{GROUPS}/rg1", json={}))
        await asyncio.wait({put}, timeout=0.05)
        assert sent[-1].groups
        assert not put.done()

        world.views.show(sent[-1])

        assert (await put).status_code == 204
        assert (await client.get(GROUPS)).json() == ["rg1"]


async def test_lost_echo_delays_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is in the store, so the answer is yes even if this sidecar never sees it."""
    monkeypatch.setattr(definitions, "_POLL_S", 0)
    async with client_of(world, MemoryStore()) as client:
        assert (await client.put(f"{GROUPS}/rg1", json={})).status_code == 204
