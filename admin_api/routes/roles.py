"""The group of a role, of a pattern of roles, and of the roles without an attachment.

As the paths of tenants and namespaces, for super-users alone: a role has no admin, and a tenant's could
take another tenant's role out of its limit. A broker does not know which roles exist, so none is asked.
"""

from __future__ import annotations

from admin_api.errors import ApiError
from admin_api.requests.names import decoded
from admin_api.routes.callers import super_user
from admin_api.routes.common import Backend, coordinator_router
from admin_api.routes.owners import add_owner_routes
from coordinator.core.owners import DEFAULT_ROLE, TrafficOwner, role_owner
from coordinator.insight.model.gate_views import RoleView
from coordinator.insight.model.roles import longest_held

router = coordinator_router("/quota/v1", "roles")

MAX_ROWS = 1_000
"""Roles in one answer."""


@router.get("/roles")
async def list_roles(backend: Backend) -> tuple[RoleView, ...]:
    """Return each role's traffic at this sidecar's gate since it was first seen; longest held first."""
    return tuple(longest_held(await backend.gate.role_traffic())[:MAX_ROWS])


async def _role(role: str) -> TrafficOwner:
    try:
        return role_owner(decoded(role))
    except ValueError as error:
        raise ApiError(400, str(error)) from error


async def _default() -> TrafficOwner:
    return TrafficOwner(role_owner(DEFAULT_ROLE).kind, DEFAULT_ROLE)


add_owner_routes(
    router,
    "/roles/{role:path}/resourcegroup",
    _role,
    super_user,
    attaching="Attach a role, or a pattern such as team-*, to a group, in place of any earlier one.",
    reading=(
        "Return the bare name of the group that exactly this role or pattern is attached to, or nothing."
    ),
    detaching="Detach a role or a pattern; not attached is fine.",
)
add_owner_routes(
    router,
    "/default-role/resourcegroup",
    _default,
    super_user,
    attaching="Attach the roles without an attachment to a group, in place of any earlier one.",
    reading="Return the bare name of the group of the roles without an attachment, or nothing.",
    detaching="Detach the roles without an attachment; not attached is fine.",
)
