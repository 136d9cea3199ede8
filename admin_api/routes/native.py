"""Enforcement by the broker's own limiter: its records, and the conditions that disturb it."""

from __future__ import annotations

from admin_api.routes.common import Backend, coordinator_router
from coordinator.native.engine.views import NativeState

router = coordinator_router("/quota/v1", "quota")


@router.get("/native")
async def native(backend: Backend) -> NativeState:
    """Return the state of native enforcement; an empty list of groups where there is none."""
    return backend.native_state() or NativeState(backend.enforcement_path)
