"""Backlogs and their quotas: of all topics of the own broker, and of one in full."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Literal

from fastapi import Query

from admin_api.backend import AdminBackend, Backlogs
from admin_api.errors import ApiError
from admin_api.requests.names import NamespaceName, TenantName, decoded
from admin_api.routes.common import Backend, coordinator_router
from coordinator.backlog.rules.answers import BrokersBacklogs, TopicBacklog, TopicBacklogInFull
from coordinator.backlog.rules.guard import Action
from coordinator.backlog.rules.views import BacklogView
from coordinator.core.topics import TopicName
from coordinator.ports import NotFound, Refused

router = coordinator_router("/quota/v1", "backlog")

MAX_ROWS = 1_000
"""Topics in one answer, which is made on the coordinator's loop."""

OFF = "Backlogs are not looked at: set backlog_check_seconds in the sidecar's configuration"

_ORDERS = {
    "used": lambda view: (-view.used(view.fullest), -(view.age_s or 0.0), view.topic),
    "age": lambda view: (-(view.age_s or 0.0), view.topic),
    "size": lambda view: (-view.size_bytes, view.topic),
    "topic": lambda view: view.topic,
}


def backlogs_of(backend: AdminBackend) -> Backlogs:
    """Return the backlogs; raise ApiError if they are unknown."""
    if backend.backlogs is None:
        raise ApiError(404, OFF)
    return backend.backlogs


@router.get("/backlog")
async def list_backlogs(
    backend: Backend,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="topics in the answer")] = 100,
    order: Annotated[
        Literal["used", "age", "size", "topic"], Query(description="what comes first")
    ] = "used",
) -> BrokersBacklogs:
    """Return this broker's topics with a backlog, those that use most of their quota first."""
    backlogs = backlogs_of(backend)
    watch = backlogs.watch
    # Sorted as of the last check; the rows shown are as of now.
    behind = sorted(
        (view for view in watch.checked if view.subscription is not None or view.size_bytes),
        key=_ORDERS[order],
    )
    shown = (watch.view(view.topic) for view in behind[:limit])
    return BrokersBacklogs(
        cluster=watch.cluster,
        topics=watch.checks.topics,
        with_backlog=sum(view.subscription is not None for view in watch.checked),
        exceeded=sum(view.exceeded is not None for view in watch.checked),
        checks=watch.checks.count,
        problem=watch.checks.problem,
        interval_s=watch.interval_s,
        rows=tuple(
            TopicBacklog.of(view, backlogs.enforcement.guard.wants(view.topic))
            for view in shown
            if view is not None
        ),
    )


@router.get("/backlog/actions")
async def list_actions(
    backend: Backend,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="actions in the answer")] = 100,
) -> tuple[Action, ...]:
    """Return the actions on exceeded quotas, or those of a dry run; the latest first."""
    return tuple(islice(reversed(backlogs_of(backend).enforcement.guard.actions), limit))


@router.get("/persistent/{tenant}/{namespace}/{topic}/backlog")
async def get_backlog(
    tenant: TenantName, namespace: NamespaceName, topic: str, backend: Backend
) -> TopicBacklogInFull:
    """Return a topic or partition as of the last check, and its subscriptions as of now."""
    backlogs = backlogs_of(backend)
    name = str(TopicName("persistent", tenant, namespace, decoded(topic)))
    view = _view(backlogs, name)
    try:
        subscriptions = await backlogs.watch.subscriptions(name)
    except NotFound as error:
        raise _not_here(name) from error
    except Refused as error:
        raise ApiError(403, f"The broker does not allow it: {error}") from error
    wanted = backlogs.enforcement.guard.wants(name)
    return TopicBacklogInFull.of(view, wanted, subscriptions=subscriptions, history=view.history)


def _view(backlogs: Backlogs, name: str) -> BacklogView:
    view = backlogs.watch.view(name)
    if view is None:
        raise _not_here(name)
    return view


def _not_here(name: str) -> ApiError:
    return ApiError(
        404,
        f"{name} is not loaded by this sidecar's broker, as of the last check: ask the sidecar of its "
        "owner, and of a partitioned topic for one partition (...-partition-0)",
    )
