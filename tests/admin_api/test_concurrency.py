"""Several admins at once: no update is lost, and what was written is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest
from structlog.testing import capture_logs

from admin_api.changes import echo
from admin_api.changes.echo import Echo
from coordinator.core.model import Rates, ResourceGroup
from coordinator.ports import ANONYMOUS, Catalogue, Origin, Versioned
from tests.admin_api.world import World, app_of
from tests.contract.listening import eventually
from tests.memory.store import MemoryStore

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
    """Lets all callers read before the first one writes, as admins on different sidecars do."""

    async def read_group(self, name: str) -> Versioned:
        """Read, and let the others go on before answering."""
        try:
            return await super().read_group(name)
        finally:
            await asyncio.sleep(0)


class BusyStore(MemoryStore):
    """A store in which another writer changes every group between our read and our write."""

    async def update_group(
        self, group: ResourceGroup, version: int, *, by: Origin = ANONYMOUS
    ) -> Versioned:
        """Lose against the other one."""
        current = await self.read_group(group.name)
        await super().update_group(ResourceGroup(group.name, Rates()), current.version)
        return await super().update_group(group, version, by=by)


def client_of(
    world: World, store: MemoryStore, seen: Echo[Catalogue] | None = None
) -> httpx.AsyncClient:
    """A client of a sidecar with another store; its views hear of changes only from the test."""
    app = app_of(replace(world.backend, store=store, groups_seen=seen or Echo(store.watch)))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sidecar")


@pytest.mark.parametrize("exists", [False, True])
async def test_concurrent_puts_lose_no_field(world: World, exists: bool) -> None:
    """Each caller sets another field at the same moment; in the end all are set."""
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


class LateWatch:
    """The watch of a store, whose calls the test passes on."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._listeners: list[Callable[[Catalogue], None]] = []
        self._sent: list[Catalogue] = []

    def watch(self, listener: Callable[[Catalogue], None]) -> None:
        """Listen to the store."""
        if not self._listeners:
            self._store.watch(self._sent.append)
        self._listeners.append(listener)

    def has(self, group: str) -> bool:
        """Return whether the newest copy has the group."""
        return group in self._sent[-1].groups

    def pass_on(self) -> None:
        """Tell the listeners of the newest copy."""
        for listener in self._listeners:
            listener(self._sent[-1])


async def test_answer_waits_for_the_watch(world: World) -> None:
    """A list right after a PUT shows the group, though lists are read from a copy of the store."""
    store = MemoryStore()
    late = LateWatch(store)
    late.watch(world.views.show)
    async with client_of(world, store, Echo(late.watch)) as client:
        put = asyncio.create_task(client.put(f"{GROUPS}/rg1", json={}))
        await eventually(lambda: late.has("rg1"))
        await asyncio.wait({put}, timeout=0.05)
        assert not put.done()

        late.pass_on()

        assert (await put).status_code == 204
        assert (await client.get(GROUPS)).json() == ["rg1"]


async def test_answer_waits_for_its_own_version(world: World) -> None:
    """A copy from before the change does not count, though it has the group."""
    store = MemoryStore()
    late = LateWatch(store)
    async with client_of(world, store, Echo(late.watch)) as client:
        await store.create_group(ResourceGroup("rg1", Rates()))
        late.pass_on()
        put = asyncio.create_task(client.put(f"{GROUPS}/rg1", json={"publishRateInMsgs": 1}))
        await asyncio.wait({put}, timeout=0.05)
        assert not put.done()

        late.pass_on()

        assert (await put).status_code == 204


async def test_late_watch_delays_the_answer_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is in the store, so the answer is yes even if this sidecar never sees it."""
    monkeypatch.setattr(echo, "ECHO_WITHIN_S", 0)
    store = MemoryStore()
    with capture_logs() as logs:
        async with client_of(world, store, Echo(LateWatch(store).watch)) as client:
            answer = await client.put(f"{GROUPS}/rg1", json={})

    version = (await store.read_group("rg1")).version
    assert (answer.status_code, answer.headers["etag"]) == (204, f'"{version}"')
    assert [(log["event"], log["change"]) for log in logs if log["log_level"] == "warning"] == [
        ("change made but not seen yet", "groups/rg1")
    ]
