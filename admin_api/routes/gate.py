"""This sidecar's gate: its own limits, and its connections, on demand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from admin_api.routes.common import PROBLEMS, Backend
from admin_api.schemas_topics import ConnectionBody, GateLimitsBody

router = APIRouter(prefix="/quota/v1/gate", tags=["gate"], responses=PROBLEMS)

MAX_ROWS = 1_000
"""Topics or connections in one answer, which is written on the loop that carries the gate."""


@router.get("/limits")
async def get_limits(backend: Backend) -> GateLimitsBody:
    """The limits of the broker, of subscriptions and of topics as this gate enforces them."""
    return GateLimitsBody.of(backend.gate.limits(), MAX_ROWS)


@router.get("/connections")
async def list_connections(
    backend: Backend,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="connections in the answer")] = 100,
) -> list[ConnectionBody]:
    """Client connections, those that hold most first."""
    return [ConnectionBody.of(figures) for figures in backend.gate.connection_figures()[:limit]]
