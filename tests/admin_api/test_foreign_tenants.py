"""A tenant's admin reaches no other tenant, however a path spells it."""

from __future__ import annotations

import httpx
import pytest

from tests.admin_api.keys import access, token
from tests.admin_api.world import World

OWN, OTHER = "public", "another"
GROUPS = "/admin/v2/resourcegroups"


def spellings(own: str, other: str) -> tuple[str, ...]:
    """Paths to the group of another tenant, or of its namespace ns; most go through the own tenant."""
    spelled = f"%{ord(other[0]):02x}{other[1:]}"
    return (
        f"/admin/v2/tenants/{other}/resourcegroup",
        f"/admin/v2/tenants/{own}/../{other}/resourcegroup",
        f"/admin/v2/tenants/{own}/..;/{other}/resourcegroup",
        f"/admin/v2/tenants/{own}/%2e%2e/{other}/resourcegroup",
        f"/admin/v2/tenants/{own}%2F..%2F{other}/resourcegroup",
        f"/admin/v2/tenants/{own}%252F..%252F{other}/resourcegroup",
        f"/admin/v2/tenants/{spelled}/resourcegroup",
        f"/admin/v2/tenants/{other}%00/resourcegroup",
        f"/admin/v2/tenants/{other};x={own}/resourcegroup",
        f"/admin/v2/tenants/{other}%20/resourcegroup",
        f"/admin/v2//tenants/{other}/resourcegroup",
        f"/admin/v2/tenants//{other}/resourcegroup",
        f"/admin/v2/tenants/./{other}/resourcegroup",
        f"/admin/v2/namespaces/{other}/ns/resourcegroup",
        f"/admin/v2/namespaces/{own}/../{other}/ns/resourcegroup",
        f"/admin/v2/namespaces/{own}/..%2F{other}%2Fns/resourcegroup",
        f"/admin/v2/namespaces/{own}%2F..%2F{other}/ns/resourcegroup",
        f"/admin/v2/namespaces/{own}/ns%2F..%2F..%2F{other}%2Fns/resourcegroup",
        f"/admin/v2/namespaces/{spelled}/ns/resourcegroup",
        f"/admin/v2/namespaces/{other}/%6es/resourcegroup",
        f"/admin/v2/namespaces/{other}/ns;x/resourcegroup",
        f"/admin/v2/namespaces/{other}/ns%00/resourcegroup",
        f"/admin/v2/namespaces//{other}/ns/resourcegroup",
        f"/admin/v2/namespaces/{other}//ns/resourcegroup",
        f"/admin/v2/namespaces/{own}\\..\\{other}/ns/resourcegroup",
    )


def requests_of(path: str) -> tuple[tuple[str, str], ...]:
    """Requests that detach what is attached there, or attach another group."""
    return (
        ("DELETE", path),
        ("DELETE", f"{path}/"),
        ("DELETE", f"{path}?tenant={OWN}"),
        ("POST", f"{path}/loose"),
        ("PUT", f"{path}/loose"),
    )


@pytest.fixture
async def attached(world: World) -> World:
    """Both tenants have a namespace, and what a super-user attached."""
    world.broker.tenants |= {OTHER}
    world.broker.namespaces |= {f"{OWN}/ns", f"{OTHER}/ns"}
    async with world.client(token("admin"), access=access()) as root:
        for name in ("tight", "loose"):
            body = {"publishRateInMsgs": 50, "allowedTenants": [OWN]}
            await root.put(f"{GROUPS}/{name}", json=body)
        for tenant in (OWN, OTHER):
            await root.post(f"/admin/v2/tenants/{tenant}/resourcegroup/tight")
            await root.post(f"/admin/v2/namespaces/{tenant}/ns/resourcegroup/tight")
    assert world.views.shown.attachments.groups_of(OTHER, "ns") == ("tight",)
    return world


async def test_no_spelling_reaches_what_is_attached_to_another_tenant(attached: World) -> None:
    """Each request is refused, and nothing has changed after all of them."""
    before = attached.views.shown.attachments
    async with attached.client(token("alice"), access=access()) as alice:
        for path in spellings(OWN, OTHER):
            for method, target in requests_of(path):
                url = alice.base_url.copy_with(raw_path=target.encode())
                answer = await alice.send(alice.build_request(method, url))
                assert answer.status_code in (400, 403, 404, 405, 412), (method, target)
                assert attached.views.shown.attachments == before, (method, target)


@pytest.mark.parametrize("header", ["X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override"])
async def test_no_header_is_a_path_or_a_method(attached: World, header: str) -> None:
    """Other servers believe such headers."""
    value = "DELETE" if "Method" in header else f"/admin/v2/tenants/{OTHER}/resourcegroup"
    async with attached.client(token("alice"), access=access()) as alice:
        for path in (f"/admin/v2/tenants/{OTHER}/resourcegroup", "/quota/v1/ready"):
            answer = await alice.get(path, headers={header: value})
            assert answer.status_code < 500

    assert attached.views.shown.attachments.groups_of(OTHER, "ns") == ("tight",)


async def test_a_role_that_is_nearly_the_tenants_admin_may_nothing(attached: World) -> None:
    """Roles are compared letter by letter."""
    path = f"/admin/v2/tenants/{OWN}/resourcegroup/tight"
    for role in ("Alice", "alice ", "alice,admin", "bob", "*", "public", "admin\n"):
        async with attached.client(token(role), access=access()) as client:
            answer: httpx.Response = await client.post(path)
            assert answer.status_code in (401, 403), role
