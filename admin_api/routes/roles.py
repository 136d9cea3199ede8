"""The group of a role, of a pattern of roles, and of the roles without an attachment.

As the paths of tenants and namespaces, for super-users alone: a role has no admin, and a tenant's could
take another tenant's role out of its limit. A broker does not know which roles exist, so none is asked.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Response

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.names import GroupName, decoded
from admin_api.routes.callers import SuperUser
from admin_api.routes.common import Backend, coordinator_router, name_operation
from coordinator.core.owners import DEFAULT_ROLE, TrafficOwner, attached, role_owner
from coordinator.insight.model.gate_views import RoleView
from coordinator.insight.model.roles import longest_held
from coordinator.ports import NotFound, Origin

router = coordinator_router("/quota/v1", "roles")

MAX_ROWS = 1_000
"""Roles in one answer."""

_ROLE = "/roles/{role:path}/resourcegroup"
_DEFAULT = "/default-role/resourcegroup"


async def _role(role: str) -> TrafficOwner:
    try:
        return role_owner(decoded(role))
    except ValueError as error:
        raise ApiError(400, str(error)) from error


async def _default() -> TrafficOwner:
    return TrafficOwner(role_owner(DEFAULT_ROLE).kind, DEFAULT_ROLE)


Role = Annotated[TrafficOwner, Depends(_role)]
"""A role or a pattern, as a path names it."""
Default = Annotated[TrafficOwner, Depends(_default)]
"""The roles without an attachment."""


@router.get("/roles")
async def list_roles(backend: Backend) -> tuple[RoleView, ...]:
    """Return each role's traffic at this sidecar's gate since it was first seen; longest held first."""
    return tuple(longest_held(await backend.gate.role_traffic())[:MAX_ROWS])


@router.put(_ROLE + "/{name}", status_code=204, response_class=Response)
@router.post(_ROLE + "/{name}", status_code=204, response_class=Response)
async def attach_role(
    role: Role, name: GroupName, response: Response, backend: Backend, caller: SuperUser
) -> None:
    """Attach a role, or a pattern such as team-*, to a group, in place of any earlier one."""
    await attach(backend, role, name, response, caller)


@router.get(_ROLE, response_class=Response)
async def get_role_attachment(role: Role, backend: Backend) -> Response:
    """Return the bare name of the group that exactly this role or pattern is attached to, or nothing."""
    return bare_name(backend, role)


@router.delete(_ROLE, status_code=204, response_class=Response)
async def detach_role(role: Role, response: Response, backend: Backend, caller: SuperUser) -> None:
    """Detach a role or a pattern; not attached is fine."""
    name_operation(response, await definitions.detach(backend, role, caller))


@router.put(_DEFAULT + "/{name}", status_code=204, response_class=Response)
@router.post(_DEFAULT + "/{name}", status_code=204, response_class=Response)
async def attach_default(
    name: GroupName, response: Response, backend: Backend, caller: SuperUser, role: Default
) -> None:
    """Attach the roles without an attachment to a group, in place of any earlier one."""
    await attach_role(role, name, response, backend, caller)


@router.get(_DEFAULT, response_class=Response)
async def get_default_attachment(backend: Backend, role: Default) -> Response:
    """Return the bare name of the group of the roles without an attachment, or nothing."""
    return bare_name(backend, role)


@router.delete(_DEFAULT, status_code=204, response_class=Response)
async def detach_default(
    response: Response, backend: Backend, caller: SuperUser, role: Default
) -> None:
    """Detach the roles without an attachment; not attached is fine."""
    await detach_role(role, response, backend, caller)


async def attach(
    backend: AdminBackend, owner: TrafficOwner, group: str, response: Response, by: Origin
) -> None:
    """Attach an owner and name the operation; raise ApiError 412 if there is no such group."""
    try:
        name_operation(response, await definitions.attach(backend, owner, group, by))
    except NotFound as error:
        raise ApiError(412, NO_SUCH_GROUP) from error


def bare_name(backend: AdminBackend, owner: TrafficOwner) -> Response:
    """Return the name of an owner's group as Pulsar does; an empty body if it has none."""
    attachments = definitions.current_catalogue(backend.views).attachments
    group = attached(attachments, owner.kind).get(owner.name, "")
    return Response(group, media_type="application/json")
