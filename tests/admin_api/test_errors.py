"""Every error has one shape, whatever raises it."""

from __future__ import annotations

import httpx
import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.insight.model.views import HealthView
from coordinator.ports import (
    BrokerUnreachable,
    GateGone,
    StoreUnreachable,
    Unreachable,
    Unreadable,
    Versioned,
)
from tests.admin_api.backlog_world import BacklogWorld
from tests.admin_api.world import World
from tests.memory.store import MemoryStore

GROUPS = "/admin/v2/resourcegroups"
NAMESPACE = "/admin/v2/namespaces/public/default/resourcegroup"


@pytest.mark.parametrize("path", ["/nope", "/admin/v2", "/admin/v2/tenants", "/quota/v1", "/redoc"])
async def test_unknown_paths(client: httpx.AsyncClient, path: str) -> None:
    """404 and the path, also where a framework would offer a page of its own."""
    response = await client.get(path)

    assert response.status_code == 404
    assert response.json() == {"reason": f"Nothing answers under {path}"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", f"{GROUPS}/rg1", "DELETE, GET, PUT"),
        ("PUT", GROUPS, "GET"),
        ("PATCH", NAMESPACE, "DELETE, GET"),
        ("GET", f"{NAMESPACE}/rg1", "POST, PUT"),
        ("POST", "/quota/v1/health", "GET"),
    ],
)
async def test_wrong_methods(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    """405 names every method that is allowed."""
    response = await client.request(method, path)

    assert response.status_code == 405
    assert response.headers["allow"] == allowed
    assert response.json() == {"reason": f"{method} is not allowed under {path}; use {allowed}"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{GROUPS}/rg1"),
        ("PUT", f"{GROUPS}/rg1"),
        ("DELETE", f"{GROUPS}/rg1"),
        ("POST", f"{NAMESPACE}/rg1"),
        ("DELETE", NAMESPACE),
        ("POST", "/admin/v2/tenants/public/resourcegroup/rg1"),
        ("DELETE", "/admin/v2/tenants/public/resourcegroup"),
        ("GET", "/quota/v1/groups/rg1"),
        ("POST", "/quota/v1/persistent/public/default/t/publishRate"),
    ],
)
async def test_unreachable_store(
    client: httpx.AsyncClient, world: World, method: str, path: str
) -> None:
    """503, and of a change that its outcome is not known."""
    world.store.reachable = False

    response = await client.request(method, path, content=b"{}")

    assert response.status_code == 503
    reason = response.json()["reason"]
    assert reason.startswith("ZooKeeper is out of reach")
    assert ("may have been made or not" in reason) is (method != "GET")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreUnreachable("timed out"), "ZooKeeper is out of reach (timed out); try again"),
        (BrokerUnreachable("GET /x: 500"), "The broker does not answer (GET /x: 500); try again"),
        (GateGone("its process has ended"), "The gate is gone (its process has ended); try again"),
    ],
)
async def test_every_failure_names_its_cause(
    client: httpx.AsyncClient, world: World, error: Unreachable, reason: str
) -> None:
    """An operator looks at the part that failed, and not at ZooKeeper for every one."""
    world.gate.failure = error

    response = await client.get("/quota/v1/gate/connections")

    assert (response.status_code, response.json()) == (503, {"reason": reason})


@pytest.mark.parametrize(
    "degradation", [Degradation.ZOOKEEPER_SUSPENDED, Degradation.ZOOKEEPER_LOST]
)
@pytest.mark.parametrize("path", [GROUPS, NAMESPACE, "/quota/v1/groups"])
async def test_old_copy_is_not_taken_for_the_store(
    client: httpx.AsyncClient, world: World, path: str, degradation: Degradation
) -> None:
    """The API refuses to read a copy that may be old."""
    world.views.turn(state=Lifecycle.DEGRADED, degradations=(degradation,))

    response = await client.get(path)

    assert response.status_code == 503
    assert degradation.value in response.json()["reason"]


async def test_copy_that_has_not_arrived_is_not_an_empty_store(
    client: httpx.AsyncClient, world: World
) -> None:
    """Told of no groups, a tool would create them all."""
    world.views.turn(state=Lifecycle.STARTING)

    assert (await client.get(GROUPS)).status_code == 503


async def test_starting_sidecar_lists_what_has_arrived(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """A sidecar without its broker starts for a long time; its groups can be seen all the same."""
    world.views.turn(state=Lifecycle.STARTING)

    assert (await client.get(GROUPS)).json() == [orders]


@pytest.mark.parametrize(
    ("path", "queries"),
    [
        ("explain/orders", ("dimension=x", "dimension=", "ageMillis=-1", "ageMillis=x")),
        ("decisions/orders", ("limit=0",)),
        ("backlog", ("limit=0", "limit=1001", "limit=x", "order=colour")),
        ("overview", ("sort=size", "limit=0", "limit=201", "offset=-1", "standing=odd")),
        ("audit", ("limit=0", "limit=1001", "before=-1", "before=x")),
        ("usage", ("limit=0", "limit=501", "limit=many")),
        ("trees", ("dimension=none",)),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(
    world: World, path: str, queries: tuple[str, ...]
) -> None:
    """400 names the parameter."""
    async with world.client(backlogs=BacklogWorld().backlogs()) as client:
        for query in queries:
            refused = await client.get(f"/quota/v1/{path}?{query}")

            assert refused.status_code == 400, query
            assert refused.json()["reason"].startswith(f"{query.partition('=')[0]}: "), query


async def test_unexpected_error_is_logged_once_and_told_nothing_of(
    client: httpx.AsyncClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stack trace is for the log, under the id that the client gets beside a reason."""

    def fail() -> HealthView:
        raise RuntimeError("secret")

    monkeypatch.setattr(world.views, "health", fail)

    with capture_logs([merge_contextvars]) as logs:
        response = await client.get("/quota/v1/health")

    assert response.status_code == 500
    assert response.json() == {"reason": "Unexpected error; the sidecar's log has the details"}
    (logged,) = [entry for entry in logs if entry["log_level"] != "debug"]
    assert (logged["event"], logged["path"]) == ("request failed", "/quota/v1/health")
    assert logged["request_id"] == response.headers["x-request-id"]


class CorruptStore(MemoryStore):
    """A store whose entries were edited with a ZooKeeper shell."""

    async def read_group(self, name: str) -> Versioned:
        """Fail."""
        raise Unreadable(f"resource group {name}: not JSON")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{GROUPS}/rg1"),
        ("PUT", f"{GROUPS}/rg1"),
        ("POST", f"{NAMESPACE}/rg1"),
        ("GET", "/quota/v1/groups/rg1"),
    ],
)
async def test_an_entry_that_cannot_be_read(world: World, method: str, path: str) -> None:
    """409 names the entry and the fault; no request overwrites it."""
    async with world.client(store=CorruptStore()) as client:
        answer = await client.request(method, path, content=b"{}")

    assert answer.status_code == 409
    assert answer.json()["reason"] == "The store refused: resource group rg1: not JSON"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("overview?limit=0", "limit: must be greater than or equal to 1, but is "),
        ("overview?limit=many", 'limit: must be a valid integer, but is "many"'),
        ("overview?sort=size", "sort: must be 'used', 'name'"),
        ("explain/orders?dimension=publish", "dimension: must be 'publishRateInMsgs'"),
    ],
)
async def test_a_wrong_parameter_is_told_as_a_wrong_field_is(
    client: httpx.AsyncClient, orders: str, path: str, reason: str
) -> None:
    """Its name, what it must be, and what it is."""
    refused = await client.get(f"/quota/v1/{path}")

    assert refused.status_code == 400
    assert refused.json()["reason"].startswith(reason)
