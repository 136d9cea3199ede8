"""What Pulsar lacks, by group: definitions in full, usage, limits in force, and why they are so."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from admin_api import definitions
from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.names import GroupName
from admin_api.routes.common import PROBLEMS, Backend
from admin_api.schemas import Definition
from admin_api.schemas_live import ExplanationBody, GroupLimits, GroupUsage
from coordinator.core.explain import UnknownBroker, UnknownGroup
from coordinator.core.model import Dimension
from coordinator.ports import NotFound

router = APIRouter(prefix="/quota/v1", tags=["quota"], responses=PROBLEMS)


@router.get("/groups")
async def list_definitions(backend: Backend) -> list[Definition]:
    """Every resource group in full."""
    catalogue = definitions.current_catalogue(backend.views)
    found = (catalogue.groups[name] for name in sorted(catalogue.groups))
    return [Definition.of(versioned, catalogue.attachments) for versioned in found]


@router.get("/groups/{name:path}")
async def get_definition(name: GroupName, backend: Backend) -> Definition:
    """One resource group in full: limits, our own settings, versions and attachments."""
    try:
        found = await backend.store.read_group(name)
    except NotFound as error:
        raise ApiError(404, NO_SUCH_GROUP) from error
    return Definition.of(found, definitions.current_catalogue(backend.views).attachments)


@router.get("/usage")
async def list_usage(backend: Backend) -> list[GroupUsage]:
    """What every broker admits of every group."""
    return [GroupUsage.of(view) for view in backend.views.group_views()]


@router.get("/usage/{name:path}")
async def get_usage(name: GroupName, backend: Backend) -> GroupUsage:
    """What every broker admits of one group."""
    for view in backend.views.group_views():
        if view.group == name:
            return GroupUsage.of(view)
    raise ApiError(404, NO_SUCH_GROUP)


@router.get("/limits")
async def list_limits(backend: Backend) -> list[GroupLimits]:
    """Every group's limit for the cluster and the local limits that are in force."""
    return [GroupLimits.of(view) for view in backend.views.group_views()]


@router.get("/explain/{name:path}")
async def explain(
    name: GroupName,
    backend: Backend,
    dimension: Annotated[Dimension, Query()] = Dimension.PUBLISH_MESSAGES,
    broker: Annotated[str | None, Query(description="this sidecar's own when absent")] = None,
) -> ExplanationBody:
    """Why a broker's local limit is what it is."""
    try:
        return ExplanationBody.of(backend.views.explain(name, dimension, broker))
    except UnknownGroup as error:
        raise ApiError(404, NO_SUCH_GROUP) from error
    except UnknownBroker as error:
        raise ApiError(404, f"Broker {error} is no member") from error
