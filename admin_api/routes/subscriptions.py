"""The group of a single subscription, and of the replication with one remote cluster.

A tenant's admin attaches the subscriptions of his topics. Neither is asked of the broker: both may be
limited before they exist.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Response

from admin_api.changes import definitions
from admin_api.errors import ApiError
from admin_api.requests.names import GroupName, NamespaceName, TenantName, decoded
from admin_api.routes.callers import SuperUser, TenantAdmin
from admin_api.routes.common import Backend, coordinator_router, name_operation
from admin_api.routes.roles import attach, bare_name
from coordinator.core.owners import TrafficOwner, cluster_owner, subscription_owner

router = coordinator_router("/quota/v1", "attachments")

_SUBSCRIPTION = (
    "/subscriptions/{domain}/{tenant}/{namespace}/{topic}/{subscription:path}/resourcegroup"
)
_CLUSTER = "/clusters/{cluster}/replication/resourcegroup"


async def _subscription(
    domain: str, tenant: TenantName, namespace: NamespaceName, topic: str, subscription: str
) -> TrafficOwner:
    try:
        names = (decoded(each) for each in (topic, subscription))
        return subscription_owner("/".join((domain, tenant, namespace, *names)))
    except ValueError as error:
        raise ApiError(400, str(error)) from error


async def _cluster(cluster: str) -> TrafficOwner:
    try:
        return cluster_owner(decoded(cluster))
    except ValueError as error:
        raise ApiError(400, str(error)) from error


Subscription = Annotated[TrafficOwner, Depends(_subscription)]
"""A subscription of a topic with all its partitions, as a path names it."""
Cluster = Annotated[TrafficOwner, Depends(_cluster)]
"""A remote cluster, as a path names it."""


@router.put(_SUBSCRIPTION + "/{name}", status_code=204, response_class=Response)
@router.post(_SUBSCRIPTION + "/{name}", status_code=204, response_class=Response)
async def attach_subscription(
    subscription: Subscription,
    name: GroupName,
    response: Response,
    backend: Backend,
    caller: TenantAdmin,
) -> None:
    """Attach a subscription to a group, whose dispatch limits hold for it, in place of any earlier."""
    await attach(backend, subscription, name, response, caller)


@router.get(_SUBSCRIPTION, response_class=Response)
async def get_subscription_attachment(subscription: Subscription, backend: Backend) -> Response:
    """Return the bare name of a subscription's group, or nothing."""
    return bare_name(backend, subscription)


@router.delete(_SUBSCRIPTION, status_code=204, response_class=Response)
async def detach_subscription(
    subscription: Subscription, response: Response, backend: Backend, caller: TenantAdmin
) -> None:
    """Detach a subscription; not attached is fine."""
    name_operation(response, await definitions.detach(backend, subscription, caller))


@router.put(_CLUSTER + "/{name}", status_code=204, response_class=Response)
@router.post(_CLUSTER + "/{name}", status_code=204, response_class=Response)
async def attach_replication(
    cluster: Cluster, name: GroupName, response: Response, backend: Backend, caller: SuperUser
) -> None:
    """Limit replication with a remote cluster by a group, in place of any earlier one.

    The publish limits hold at gates for what the cluster replicates into this one, the dispatch limits
    natively for what it is sent.
    """
    await attach(backend, cluster, name, response, caller)


@router.get(_CLUSTER, response_class=Response)
async def get_replication_attachment(cluster: Cluster, backend: Backend) -> Response:
    """Return the bare name of the group that limits replication with a remote cluster, or nothing."""
    return bare_name(backend, cluster)


@router.delete(_CLUSTER, status_code=204, response_class=Response)
async def detach_replication(
    cluster: Cluster, response: Response, backend: Backend, caller: SuperUser
) -> None:
    """Limit replication with a remote cluster no more; not attached is fine."""
    name_operation(response, await definitions.detach(backend, cluster, caller))
