"""A group's present traffic under another law."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.names import GroupName
from admin_api.routes.common import Backend, coordinator_router
from coordinator.core.allocation.laws import LAWS
from coordinator.core.model import Dimension
from coordinator.insight.model.explain import UnknownGroup
from coordinator.insight.model.views import ShadowView

router = coordinator_router("/quota/v1", "quota")


@router.get("/shadow/{name:path}")
async def compare(
    name: GroupName,
    backend: Backend,
    dimension: Annotated[Dimension, Query()] = Dimension.PUBLISH_MESSAGES,
    law: Annotated[
        str | None, Query(description="the candidate; the sidecar's `shadow_law` when absent")
    ] = None,
) -> ShadowView:
    """Compare two laws on the same facts: the brokers that would gain and that would lose."""
    candidate = law or backend.views.shadow_law()
    if candidate is None:
        reason = "law: name one, as this sidecar's configuration has no shadow_law"
        raise ApiError(400, f"{reason}; there are {', '.join(LAWS)}")
    if candidate not in LAWS:
        raise ApiError(400, f'law: must be one of {", ".join(LAWS)}, but is "{candidate}"')
    try:
        found = backend.views.shadow(name, dimension, candidate)
    except UnknownGroup as error:
        raise ApiError(404, NO_SUCH_GROUP) from error
    if found is None:
        raise ApiError(404, f"{name} does not limit {dimension.value}")
    return found.view(backend.views.health().broker)
