"""Enforcement by the broker's own limiter: its records, and the conditions that disturb it."""

from __future__ import annotations

from admin_api.routes.common import Backend, coordinator_router
from admin_api.schemas.native import NativeBody

router = coordinator_router("/quota/v1", "quota")


@router.get("/native")
async def native(backend: Backend) -> NativeBody:
    """Return the state of native enforcement; an empty list of groups where there is none."""
    return NativeBody.of(backend.enforcement_path, backend.native_state())
