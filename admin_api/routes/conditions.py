"""Conditions: ``/quota/v1/conditions``."""

from __future__ import annotations

from admin_api.routes.common import Backend, coordinator_router
from coordinator.insight.model.conditions import ConditionView

router = coordinator_router("/quota/v1/conditions", "conditions")


@router.get("")
async def list_conditions(backend: Backend) -> list[ConditionView]:
    """Return the conditions that hold at this sidecar, the worst first; at most 200 of a kind."""
    return [each.view() for each in backend.history.conditions.listed]
