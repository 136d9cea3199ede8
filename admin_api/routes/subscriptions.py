"""The group of a single subscription, and of the replication with one remote cluster.

A tenant's admin attaches the subscriptions of his topics. Neither is asked of the broker: both may be
limited before they exist.
"""

from __future__ import annotations

from admin_api.errors import ApiError
from admin_api.requests.names import NamespaceName, TenantName, decoded
from admin_api.routes.callers import super_user, tenant_admin
from admin_api.routes.common import coordinator_router
from admin_api.routes.owners import add_owner_routes
from coordinator.core.owners import TrafficOwner, cluster_owner, subscription_owner

router = coordinator_router("/quota/v1", "attachments")


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


add_owner_routes(
    router,
    "/subscriptions/{domain}/{tenant}/{namespace}/{topic}/{subscription:path}/resourcegroup",
    _subscription,
    tenant_admin,
    attaching=(
        "Attach a subscription to a group, whose dispatch limits hold for it, in place of any earlier."
    ),
    reading="Return the bare name of a subscription's group, or nothing.",
    detaching="Detach a subscription; not attached is fine.",
)
add_owner_routes(
    router,
    "/clusters/{cluster}/replication/resourcegroup",
    _cluster,
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
