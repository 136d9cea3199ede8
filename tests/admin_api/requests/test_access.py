"""Each role may do what its rights say, and no more."""

from __future__ import annotations

import re

import httpx
import jwt
import pytest

from admin_api.requests.access import Access
from tests.admin_api.keys import access, in_seconds, token
from tests.admin_api.world import World

GROUP = "/admin/v2/resourcegroups/orders"
NAMESPACE = "/admin/v2/namespaces/public/default/resourcegroup"
TENANT = "/admin/v2/tenants/public/resourcegroup"

CHANGES = [
    ("PUT", GROUP),
    ("DELETE", GROUP),
    ("POST", f"{NAMESPACE}/orders"),
    ("PUT", f"{NAMESPACE}/orders"),
    ("DELETE", NAMESPACE),
    ("POST", f"{TENANT}/orders"),
    ("DELETE", TENANT),
    ("POST", "/quota/v1/audit/0/rollback"),
]
READS = [
    GROUP,
    "/admin/v2/resourcegroups",
    "/quota/v1/groups",
    "/quota/v1/usage",
    "/quota/v1/limits",
    "/quota/v1/health",
    "/quota/v1/members",
    "/quota/v1/log-level",
    "/quota/v1/catalogue/faults",
    "/metrics",
]

UNSIGNED = jwt.encode({"sub": "admin"}, "", "none")
FORGED = token("admin", key=b"another secret of more than 32 bytes")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "A token is needed"),
        ({"Authorization": "Basic YTpi"}, "The Authorization header must be"),
        ({"Authorization": "Bearer rubbish"}, "The token cannot be read"),
        ({"Authorization": f"Bearer {token(exp=in_seconds(-3600))}"}, "The token has expired"),
        ({"Authorization": f"Bearer {UNSIGNED}"}, "The token's algorithm is not accepted"),
        ({"Authorization": f"Bearer {FORGED}"}, "The token's signature does not fit"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [*CHANGES, *(("GET", path) for path in READS), ("GET", "/admin/v2/tenants")]
)
async def test_without_a_good_token_nothing_is_answered(
    world: World, method: str, path: str, headers: dict[str, str], reason: str
) -> None:
    """401, a reason, and nothing has changed; before anything else is looked at."""
    async with world.client(access=access()) as client:
        answer = await client.request(method, path, headers=headers, content=b"rubbish")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["reason"].startswith(reason)
    assert not world.views.shown.groups


@pytest.mark.parametrize("path", READS[1:])
async def test_a_viewer_can_read(world: World, path: str) -> None:
    """Any valid token will do."""
    async with world.client(token("viewer"), access=access()) as client:
        assert (await client.get(path)).status_code == 200


async def test_a_viewer_cannot_read_the_audit_trail(world: World) -> None:
    """It says who works from where."""
    async with world.client(token("viewer"), access=access()) as client:
        assert (await client.get("/quota/v1/audit")).status_code == 403


async def test_a_tenant_admin_attaches_his_own_tenant(world: World) -> None:
    """He attaches and detaches its namespaces, too; another tenant's are not his."""
    async with world.client(token("admin"), access=access()) as client:
        await client.put(GROUP, json={"allowedTenants": ["public"]})
    async with world.client(token("alice"), access=access()) as client:
        for method, path in CHANGES[2:7]:
            assert (await client.request(method, path)).status_code == 204, path
        for path in (TENANT, NAMESPACE):
            other = await client.post(path.replace("public", "bank") + "/orders")
            assert other.status_code == 403
            assert other.json()["reason"] == "Role alice is neither super-user nor admin of bank"
        for method, path in (("PUT", GROUP), ("PUT", "/quota/v1/cluster/specification")):
            assert (await client.request(method, path, json={})).status_code == 403, path


async def test_a_super_user_may_do_everything(world: World) -> None:
    """Create, attach, detach, delete, read the trail."""
    async with world.client(token("admin"), access=access()) as client:
        for method, path in (CHANGES[0], *CHANGES[2:7], CHANGES[1]):
            assert (await client.request(method, path, content=b"{}")).status_code == 204, path
        assert (await client.get("/quota/v1/audit")).status_code == 200


async def test_readiness_needs_no_token(world: World) -> None:
    """A process supervisor has none."""
    async with world.client(access=access()) as client:
        assert (await client.get("/quota/v1/ready")).status_code == 200


async def test_without_keys_everybody_may_do_everything(client: httpx.AsyncClient) -> None:
    """The configuration allows that on loopback only."""
    assert (await client.put(GROUP, json={})).status_code == 204
    assert Access().role_of("Bearer rubbish") == "anonymous"


async def test_no_endpoint_that_changes_anything_is_open_to_a_viewer(world: World) -> None:
    """This holds for every operation of the API's description that writes, but the preview."""
    described = world.app.openapi()["paths"]
    changing = [
        (method.upper(), re.sub(r"\{domain\}", "persistent", path))
        for path, methods in described.items()
        for method in methods
        if method in ("put", "post", "delete", "patch") and "/preview/" not in path
    ]
    assert len(changing) > 10
    async with world.client(token("viewer"), access=access()) as client:
        for method, path in changing:
            filled = re.sub(r"\{[a-z_]*id\}", "1", path)
            filled = re.sub(r"\{[^}]*\}", "name", filled)
            answer = await client.request(method, filled, json={"level": "debug"})
            assert answer.status_code == 403, (method, filled, answer.text)
            assert "Role viewer" in answer.json()["reason"]
    assert not world.views.shown.groups
