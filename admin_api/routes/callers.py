"""The caller's role, as dependencies of the routes; the rules are those of `access`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Request

from admin_api.backend import AdminBackend
from admin_api.errors import ApiError
from admin_api.requests.access import NotIdentified
from admin_api.requests.names import TenantName
from admin_api.routes.common import Backend, backend_of
from coordinator.ports import Origin


async def identified(request: Request) -> Origin:
    """Return any caller with a valid token.

    Raises:
        ApiError: 401.
    """
    try:
        role = backend_of(request).access.role_of(request.headers.get("authorization"))
    except NotIdentified as error:
        raise ApiError(401, str(error), {"WWW-Authenticate": "Bearer"}) from error
    return Origin(role, request.client.host if request.client else "")


AnyCaller = Annotated[Origin, Depends(identified)]


async def super_user(caller: AnyCaller, backend: Backend) -> Origin:
    """Return a super-user; raises ApiError 403 for any other caller."""
    if not backend.access.is_super_user(caller.actor):
        raise ApiError(403, f"Role {caller.actor} is no super-user")
    return caller


async def tenant_admin(caller: AnyCaller, tenant: TenantName, backend: Backend) -> Origin:
    """Return a caller with rights on the path's tenant; raises ApiError 403 for any other."""
    return acting_for(tenant, caller, backend)


def acting_for(tenant: str, caller: Origin, backend: AdminBackend) -> Origin:
    """Return a caller with his rights on a tenant; raises ApiError 403 if he has none."""
    if backend.access.is_super_user(caller.actor):
        return caller
    if not backend.access.is_admin_of(caller.actor, tenant):
        raise ApiError(403, f"Role {caller.actor} is neither super-user nor admin of {tenant}")
    return replace(caller, tenant=tenant)


SuperUser = Annotated[Origin, Depends(super_user)]
TenantAdmin = Annotated[Origin, Depends(tenant_admin)]
