"""Alarms: ``/quota/v1/alarms``."""

from __future__ import annotations

from admin_api.routes.common import Backend, coordinator_router
from coordinator.insight.model.alarms import AlarmView

router = coordinator_router("/quota/v1/alarms", "alarms")


@router.get("")
async def list_alarms(backend: Backend) -> list[AlarmView]:
    """Return every alarm of this sidecar, those that do not fire yet too; at most 200 of a kind."""
    watching = backend.watching
    now_ns = watching.now_ns()
    return [alarm.view(now_ns) for alarm in watching.alarms.all()]
