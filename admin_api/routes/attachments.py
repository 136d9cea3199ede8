"""The group of a tenant or a namespace: ``.../resourcegroup[/{group}]``.

For namespaces as Pulsar answers; for tenants, where PIP-82 promises the same and Pulsar has nothing,
the same. Pulsar attaches with POST and PIP-82 with PUT; both do.

Attaching asks the broker whether the tenant or namespace exists. Reading and detaching ask it only
when nothing is attached: an attachment that outlived its namespace must still be visible and
removable, or its group could never be deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable

from fastapi import Response

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.changes.definitions import Owner
from admin_api.errors import NO_SUCH_GROUP, NO_SUCH_NAMESPACE, NO_SUCH_TENANT, ApiError
from admin_api.requests.names import GroupName, NamespaceName, TenantName
from admin_api.routes.callers import TenantAdmin
from admin_api.routes.common import Backend, coordinator_router, name_operation
from coordinator.ports import BrokerUnreachable, NotFound

router = coordinator_router("/admin/v2", "attachments")

_NAMESPACE = "/namespaces/{tenant}/{namespace}/resourcegroup"
_TENANT = "/tenants/{tenant}/resourcegroup"


@router.put(_NAMESPACE + "/{name:path}", status_code=204, response_class=Response)
@router.post(_NAMESPACE + "/{name:path}", status_code=204, response_class=Response)
async def attach_namespace(
    tenant: TenantName,
    namespace: NamespaceName,
    name: GroupName,
    response: Response,
    backend: Backend,
    caller: TenantAdmin,
) -> None:
    """Attach a namespace to a group, in place of any earlier one."""
    await definitions.require_group(backend, name, caller)
    await _require_namespace(backend, tenant, namespace)
    try:
        operation = await definitions.attach(backend, Owner(tenant, namespace), name, caller)
    except NotFound as error:
        raise ApiError(412, NO_SUCH_GROUP) from error
    name_operation(response, operation)


@router.get(_NAMESPACE + "/", include_in_schema=False, response_class=Response)
@router.get(_NAMESPACE, response_class=Response)
async def get_namespace_attachment(
    tenant: TenantName, namespace: NamespaceName, backend: Backend
) -> Response:
    """Return the group's bare name; an empty body when the namespace is not attached."""
    attachments = definitions.current_catalogue(backend.views).attachments
    group = attachments.namespaces.get(f"{tenant}/{namespace}")
    if group is None:
        await _require_namespace(backend, tenant, namespace)
    return _bare_name(group)


@router.delete(_NAMESPACE + "/", include_in_schema=False, status_code=204, response_class=Response)
@router.delete(_NAMESPACE, status_code=204, response_class=Response)
async def detach_namespace(
    tenant: TenantName,
    namespace: NamespaceName,
    response: Response,
    backend: Backend,
    caller: TenantAdmin,
) -> None:
    """Detach a namespace; not attached is fine."""
    attachments = backend.views.catalogue().attachments
    if f"{tenant}/{namespace}" not in attachments.namespaces:
        await _require_namespace(backend, tenant, namespace)
    name_operation(response, await definitions.detach(backend, Owner(tenant, namespace), caller))


@router.put(_TENANT + "/{name:path}", status_code=204, response_class=Response)
@router.post(_TENANT + "/{name:path}", status_code=204, response_class=Response)
async def attach_tenant(
    tenant: TenantName,
    name: GroupName,
    response: Response,
    backend: Backend,
    caller: TenantAdmin,
) -> None:
    """Attach a tenant to a group, in place of any earlier one."""
    await definitions.require_group(backend, name, caller)
    await _require_tenant(backend, tenant)
    try:
        operation = await definitions.attach(backend, Owner(tenant), name, caller)
    except NotFound as error:
        raise ApiError(412, NO_SUCH_GROUP) from error
    name_operation(response, operation)


@router.get(_TENANT + "/", include_in_schema=False, response_class=Response)
@router.get(_TENANT, response_class=Response)
async def get_tenant_attachment(tenant: TenantName, backend: Backend) -> Response:
    """Return the group's bare name; an empty body when the tenant is not attached."""
    group = definitions.current_catalogue(backend.views).attachments.tenants.get(tenant)
    if group is None:
        await _require_tenant(backend, tenant)
    return _bare_name(group)


@router.delete(_TENANT + "/", include_in_schema=False, status_code=204, response_class=Response)
@router.delete(_TENANT, status_code=204, response_class=Response)
async def detach_tenant(
    tenant: TenantName, response: Response, backend: Backend, caller: TenantAdmin
) -> None:
    """Detach a tenant; not attached is fine."""
    if tenant not in backend.views.catalogue().attachments.tenants:
        await _require_tenant(backend, tenant)
    name_operation(response, await definitions.detach(backend, Owner(tenant), caller))


def _bare_name(group: str | None) -> Response:
    # Pulsar announces JSON and sends the name without quotes; its tools take the body as it is.
    return Response(group or "", media_type="application/json")


async def _require_namespace(backend: AdminBackend, tenant: str, namespace: str) -> None:
    question = backend.broker.namespace_exists(tenant, namespace)
    if not await _ask_broker(question, f"namespace {tenant}/{namespace}"):
        raise ApiError(404, NO_SUCH_NAMESPACE)


async def _require_tenant(backend: AdminBackend, tenant: str) -> None:
    if not await _ask_broker(backend.broker.tenant_exists(tenant), f"tenant {tenant}"):
        raise ApiError(404, NO_SUCH_TENANT)


async def _ask_broker(question: Awaitable[bool], subject: str) -> bool:
    try:
        return await question
    except BrokerUnreachable as error:
        reason = f"The broker does not say whether {subject} exists; nothing has changed, try again"
        raise ApiError(503, reason) from error
