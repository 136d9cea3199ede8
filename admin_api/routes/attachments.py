"""The group of an owner of traffic: ``.../resourcegroup[/{group}]``.

For namespaces as Pulsar answers; for tenants, where PIP-82 promises the same and Pulsar has nothing, the
same; and for owners that Pulsar does not know: roles, subscriptions, and replication with one remote
cluster. Pulsar attaches with POST and PIP-82 with PUT; both do.

Attaching asks the broker whether the tenant or namespace exists. Reading and detaching ask it only when
nothing is attached: an attachment that outlived its namespace must still be visible and removable, or its
group could never be deleted. The others are not asked for: a broker does not know which roles exist, and
subscriptions and clusters may be limited before they exist.

A tenant's admin attaches his tenant, its namespaces and the subscriptions of its topics. Roles and
clusters are for super-users alone: a role has no admin, and a tenant's could take another tenant's role
out of its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Depends, Response

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.errors import NO_SUCH_GROUP, NO_SUCH_NAMESPACE, NO_SUCH_TENANT, ApiError
from admin_api.requests.names import GroupName, NamespaceName, TenantName, decoded
from admin_api.routes.callers import super_user, tenant_admin
from admin_api.routes.common import Backend, coordinator_router, name_operation
from coordinator.core.owners import (
    DEFAULT_ROLE,
    OwnerKind,
    TrafficOwner,
    cluster_owner,
    namespace_owner,
    role_owner,
    subscription_owner,
    tenant_owner,
)
from coordinator.insight.model.gate_views import RoleView
from coordinator.insight.model.roles import longest_held
from coordinator.ports import BrokerUnreachable, NotFound, Origin

router = coordinator_router("/admin/v2", "attachments")
further_router = coordinator_router("/quota/v1", "attachments")
roles_router = coordinator_router("/quota/v1", "roles")

MAX_ROLES = 1_000
"""Roles in one answer."""

_KNOWN_TO_PULSAR: Final = (OwnerKind.TENANT, OwnerKind.NAMESPACE)


@roles_router.get("/roles")
async def list_roles(backend: Backend) -> tuple[RoleView, ...]:
    """Return each role's traffic at this sidecar's gate since it was first seen; longest held first."""
    return tuple(longest_held(await backend.gate.role_traffic())[:MAX_ROLES])


def _add_owner_routes(
    to: APIRouter,
    path: str,
    owner: Callable[..., Coroutine[Any, Any, TrafficOwner]],
    caller: Callable[..., Coroutine[Any, Any, Origin]],
    *,
    attaching: str,
    reading: str,
    detaching: str,
) -> None:
    """Add the routes of one kind of owners: PUT and POST with a group's name behind, GET and DELETE.

    Args:
        to: gets the routes.
        path: of an owner's group.
        owner: the dependency that reads the owner from the path; the routes are named after it.
        caller: the dependency that returns the caller, if he may attach it.
        attaching: a sentence on PUT and POST, for the reference.
        reading: on GET.
        detaching: on DELETE.
    """
    found, by, kind = Depends(owner), Depends(caller), owner.__name__

    async def attach(
        *,
        of: TrafficOwner = found,
        name: GroupName,
        response: Response,
        backend: Backend,
        caller: Origin = by,
    ) -> None:
        if of.kind in _KNOWN_TO_PULSAR:
            await definitions.require_group(backend, name, caller)
            await _require(backend, of)
        try:
            name_operation(response, await definitions.attach(backend, of, name, caller))
        except NotFound as error:
            raise ApiError(412, NO_SUCH_GROUP) from error

    async def read(backend: Backend, of: TrafficOwner = found) -> Response:
        attachments = definitions.current_catalogue(backend.views).attachments
        group = definitions.group_of(of, attachments)
        if group is None:
            await _require(backend, of)
        # Pulsar announces JSON and sends the name without quotes; its tools take the body as it is.
        return Response(group or "", media_type="application/json")

    async def detach(
        response: Response, backend: Backend, of: TrafficOwner = found, caller: Origin = by
    ) -> None:
        if definitions.group_of(of, backend.views.catalogue().attachments) is None:
            await _require(backend, of)
        name_operation(response, await definitions.detach(backend, of, caller))

    for method in ("POST", "PUT"):
        to.api_route(
            path + "/{name:path}",
            methods=[method],
            status_code=204,
            response_class=Response,
            description=attaching,
            name=f"attach_{kind}",
        )(attach)
    for each in (path, path + "/"):
        shown = partial(to.api_route, each, response_class=Response, include_in_schema=each == path)
        shown(methods=["GET"], description=reading, name=f"get_{kind}_attachment")(read)
        shown(methods=["DELETE"], description=detaching, name=f"detach_{kind}", status_code=204)(
            detach
        )


async def _require(backend: AdminBackend, owner: TrafficOwner) -> None:
    """Refuse a tenant or a namespace that the broker does not know."""
    match owner.kind:
        case OwnerKind.TENANT:
            question = backend.broker.tenant_exists(owner.name)
            kind, refusal = "tenant", NO_SUCH_TENANT
        case OwnerKind.NAMESPACE:
            question = backend.broker.namespace_exists(*owner.name.split("/", 1))
            kind, refusal = "namespace", NO_SUCH_NAMESPACE
        case _:
            return
    try:
        exists = await question
    except BrokerUnreachable as error:
        raise ApiError(
            503,
            f"The broker does not say whether {kind} {owner} exists; nothing has changed, try again",
        ) from error
    if not exists:
        raise ApiError(404, refusal)


def _made(make: Callable[[str], TrafficOwner], name: str) -> TrafficOwner:
    try:
        return make(name)
    except ValueError as error:
        raise ApiError(400, str(error)) from error


async def namespace(tenant: TenantName, namespace: NamespaceName) -> TrafficOwner:
    """Return a namespace, as a path names it."""
    return namespace_owner(tenant, namespace)


async def tenant(tenant: TenantName) -> TrafficOwner:
    """Return a tenant, as a path names it."""
    return tenant_owner(tenant)


async def role(role: str) -> TrafficOwner:
    """Return a role or a pattern of roles; an empty name is a slip, for the default has its own path."""
    if not role:
        raise ApiError(
            400, "role '': name one; default-role is for the roles without an attachment"
        )
    return _made(role_owner, decoded(role))


async def default_role() -> TrafficOwner:
    """Return the roles without an attachment."""
    return TrafficOwner(OwnerKind.ROLE, DEFAULT_ROLE)


async def subscription(
    domain: str, tenant: TenantName, namespace: NamespaceName, topic: str, subscription: str
) -> TrafficOwner:
    """Return a single subscription."""
    names = decoded(topic), decoded(subscription)
    return _made(subscription_owner, "/".join((domain, tenant, namespace, *names)))


async def cluster(cluster: str) -> TrafficOwner:
    """Return a remote cluster."""
    return _made(cluster_owner, decoded(cluster))


_add_owner_routes(
    router,
    "/namespaces/{tenant}/{namespace}/resourcegroup",
    namespace,
    tenant_admin,
    attaching="Attach a namespace to a group, in place of any earlier one.",
    reading="Return the group's bare name; an empty body when the namespace is not attached.",
    detaching="Detach a namespace; not attached is fine.",
)
_add_owner_routes(
    router,
    "/tenants/{tenant}/resourcegroup",
    tenant,
    tenant_admin,
    attaching="Attach a tenant to a group, in place of any earlier one.",
    reading="Return the group's bare name; an empty body when the tenant is not attached.",
    detaching="Detach a tenant; not attached is fine.",
)
_add_owner_routes(
    roles_router,
    "/roles/{role:path}/resourcegroup",
    role,
    super_user,
    attaching="Attach a role, or a pattern such as team-*, to a group, in place of any earlier one.",
    reading=(
        "Return the bare name of the group that exactly this role or pattern is attached to, or nothing."
    ),
    detaching="Detach a role or a pattern; not attached is fine.",
)
_add_owner_routes(
    roles_router,
    "/default-role/resourcegroup",
    default_role,
    super_user,
    attaching="Attach the roles without an attachment to a group, in place of any earlier one.",
    reading="Return the bare name of the group of the roles without an attachment, or nothing.",
    detaching="Detach the roles without an attachment; not attached is fine.",
)
_add_owner_routes(
    further_router,
    "/subscriptions/{domain}/{tenant}/{namespace}/{topic}/{subscription:path}/resourcegroup",
    subscription,
    tenant_admin,
    attaching=(
        "Attach a subscription to a group, whose dispatch limits hold for it, in place of any earlier."
    ),
    reading="Return the bare name of a subscription's group, or nothing.",
    detaching="Detach a subscription; not attached is fine.",
)
_add_owner_routes(
    further_router,
    "/clusters/{cluster}/replication/resourcegroup",
    cluster,
    super_user,
    attaching=(
        "Limit replication with a remote cluster by a group, in place of any earlier one.\n\n"
        "The publish limits hold at gates for what the cluster replicates into this one, the dispatch "
        "limits natively for what it is sent."
    ),
    reading=(
        "Return the bare name of the group that limits replication with a remote cluster, or nothing."
    ),
    detaching="Limit replication with a remote cluster no more; not attached is fine.",
)
