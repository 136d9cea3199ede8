"""The group of a tenant or a namespace: ``.../resourcegroup[/{group}]``.

For namespaces as Pulsar answers; for tenants, where PIP-82 promises the same and Pulsar has nothing,
the same. Pulsar attaches with POST and PIP-82 with PUT; both do.

Attaching asks the broker whether the tenant or namespace exists. Reading and detaching ask it only
when nothing is attached: an attachment that outlived its namespace must still be visible and
removable, or its group could never be deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated

from fastapi import Depends, Response

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.changes.definitions import Owner
from admin_api.errors import NO_SUCH_GROUP, NO_SUCH_NAMESPACE, NO_SUCH_TENANT, ApiError
from admin_api.requests.names import GroupName, NamespaceName, TenantName
from admin_api.routes.callers import TenantAdmin
from admin_api.routes.common import Backend, coordinator_router, name_operation
from coordinator.ports import BrokerUnreachable, NotFound, Origin

router = coordinator_router("/admin/v2", "attachments")

_NAMESPACE = "/namespaces/{tenant}/{namespace}/resourcegroup"
_TENANT = "/tenants/{tenant}/resourcegroup"


async def _namespace(tenant: TenantName, namespace: NamespaceName) -> Owner:
    return Owner(tenant, namespace)


async def _tenant(tenant: TenantName) -> Owner:
    return Owner(tenant)


Namespace = Annotated[Owner, Depends(_namespace)]
"""A namespace, as a path names it."""
Tenant = Annotated[Owner, Depends(_tenant)]
"""A tenant, as a path names it."""


@router.put(_NAMESPACE + "/{name:path}", status_code=204, response_class=Response)
@router.post(_NAMESPACE + "/{name:path}", status_code=204, response_class=Response)
async def attach_namespace(
    owner: Namespace, name: GroupName, response: Response, backend: Backend, caller: TenantAdmin
) -> None:
    """Attach a namespace to a group, in place of any earlier one."""
    await _attach(backend, owner, name, response, caller)


@router.get(_NAMESPACE + "/", include_in_schema=False, response_class=Response)
@router.get(_NAMESPACE, response_class=Response)
async def get_namespace_attachment(owner: Namespace, backend: Backend) -> Response:
    """Return the group's bare name; an empty body when the namespace is not attached."""
    return await _bare_name(backend, owner)


@router.delete(_NAMESPACE + "/", include_in_schema=False, status_code=204, response_class=Response)
@router.delete(_NAMESPACE, status_code=204, response_class=Response)
async def detach_namespace(
    owner: Namespace, response: Response, backend: Backend, caller: TenantAdmin
) -> None:
    """Detach a namespace; not attached is fine."""
    await _detach(backend, owner, response, caller)


@router.put(_TENANT + "/{name:path}", status_code=204, response_class=Response)
@router.post(_TENANT + "/{name:path}", status_code=204, response_class=Response)
async def attach_tenant(
    owner: Tenant, name: GroupName, response: Response, backend: Backend, caller: TenantAdmin
) -> None:
    """Attach a tenant to a group, in place of any earlier one."""
    await _attach(backend, owner, name, response, caller)


@router.get(_TENANT + "/", include_in_schema=False, response_class=Response)
@router.get(_TENANT, response_class=Response)
async def get_tenant_attachment(owner: Tenant, backend: Backend) -> Response:
    """Return the group's bare name; an empty body when the tenant is not attached."""
    return await _bare_name(backend, owner)


@router.delete(_TENANT + "/", include_in_schema=False, status_code=204, response_class=Response)
@router.delete(_TENANT, status_code=204, response_class=Response)
async def detach_tenant(
    owner: Tenant, response: Response, backend: Backend, caller: TenantAdmin
) -> None:
    """Detach a tenant; not attached is fine."""
    await _detach(backend, owner, response, caller)


async def _attach(
    backend: AdminBackend, owner: Owner, group: str, response: Response, by: Origin
) -> None:
    await definitions.require_group(backend, group, by)
    await _require(backend, owner)
    try:
        name_operation(response, await definitions.attach(backend, owner, group, by))
    except NotFound as error:
        raise ApiError(412, NO_SUCH_GROUP) from error


async def _bare_name(backend: AdminBackend, owner: Owner) -> Response:
    group = owner.group_in(definitions.current_catalogue(backend.views).attachments)
    if group is None:
        await _require(backend, owner)
    # Pulsar announces JSON and sends the name without quotes; its tools take the body as it is.
    return Response(group or "", media_type="application/json")


async def _detach(backend: AdminBackend, owner: Owner, response: Response, by: Origin) -> None:
    if owner.group_in(backend.views.catalogue().attachments) is None:
        await _require(backend, owner)
    name_operation(response, await definitions.detach(backend, owner, by))


async def _require(backend: AdminBackend, owner: Owner) -> None:
    """Refuse a tenant or a namespace that the broker does not know."""
    if owner.namespace is None:
        question = backend.broker.tenant_exists(owner.tenant)
        kind, refusal = "tenant", NO_SUCH_TENANT
    else:
        question = backend.broker.namespace_exists(owner.tenant, owner.namespace)
        kind, refusal = "namespace", NO_SUCH_NAMESPACE
    if not await _ask_broker(question, f"{kind} {owner}"):
        raise ApiError(404, refusal)


async def _ask_broker(question: Awaitable[bool], subject: str) -> bool:
    try:
        return await question
    except BrokerUnreachable as error:
        reason = f"The broker does not say whether {subject} exists; nothing has changed, try again"
        raise ApiError(503, reason) from error
