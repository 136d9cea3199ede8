"""This sidecar's gate: its own limits, and its connections, on demand."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from admin_api.errors import ApiError
from admin_api.routes.common import Backend, coordinator_router
from coordinator.core.topics import TopicName
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.gate_views import ConnectionFigures, GateLimits
from coordinator.insight.model.partitions import PartitionView
from coordinator.insight.model.specification import ADVISED

router = coordinator_router("/quota/v1/gate", "gate")

NOT_APART = (
    "Delayed messages are not counted apart: set delayed_group in the sidecar's configuration"
)

MAX_ADVISED = 20
"""The most topics of an answer whose number of partitions the broker is asked for."""

MAX_ROWS = 1_000
"""Topics or connections in one answer, which is made on the coordinator's loop."""


@router.get("/limits")
async def get_limits(backend: Backend) -> GateLimits:
    """Return the limits of the broker, of subscriptions and of topics as this gate enforces them."""
    return (await backend.gate.limits()).first(MAX_ROWS)


@router.get("/partitions")
async def list_partitions(
    backend: Backend,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="partitions in the answer")] = 100,
) -> list[PartitionView]:
    """Return partitions' use of their limit in the last minute, and advice; busiest first."""
    meter = backend.partitions
    busiest = () if meter is None else (await meter.views())[:limit]
    rows: list[PartitionView] = []
    for view in busiest:
        partitions = 0
        if view.used > ADVISED and len(rows) < MAX_ADVISED:
            name = TopicName.parse(view.topic)
            assert name is not None, "the gate limits topics only"
            partitions = await backend.broker.partitions_of(name.split_partition()[0])
        rows.append(view.advised(partitions))
    return rows


@router.get("/delayed")
async def get_delayed(
    backend: Backend,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="topics in the answer")] = 100,
) -> DelayedView:
    """Return delayed messages since the start, and those whose time of delivery has no effect."""
    view = await backend.gate.delayed()
    if view is None:
        raise ApiError(404, NOT_APART)
    return view.told(backend.delayed_group, limit)


@router.get("/connections")
async def list_connections(
    backend: Backend,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="connections in the answer")] = 100,
) -> tuple[ConnectionFigures, ...]:
    """Return client connections, those that hold most first."""
    return (await backend.gate.connection_figures())[:limit]
