"""Changes under way: ``/quota/v1/operations``. Any sidecar knows all of them."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Path, Query

from admin_api.errors import ApiError
from admin_api.routes.common import MAX_ID, Backend, coordinator_router
from coordinator.core.model import NANOS_PER_MILLI
from coordinator.insight.model.operations import OperationView
from coordinator.insight.model.outside import OPERATIONS_LENGTH, RecordedOperation

router = coordinator_router("/quota/v1/operations", "operations")

_KEPT = 2 * OPERATIONS_LENGTH
"""As many as may be kept of super-users, and of the admins of ten tenants."""


@router.get("")
async def list_operations(
    backend: Backend,
    group: Annotated[str, Query(description="only this group's")] = "",
    limit: Annotated[int, Query(ge=1, le=OPERATIONS_LENGTH)] = 100,
) -> list[OperationView]:
    """Return the newest changes; 1,000 ended ones of super-users are kept, 100 of a tenant's admins."""
    found = await backend.operation_log.operations(_KEPT if group else limit)
    wanted = [each for each in found if group in ("", each.operation.group)][:limit]
    return [_view(recorded) for recorded in wanted]


@router.get("/{operation_id}")
async def get_operation(
    operation_id: Annotated[int, Path(ge=0, le=MAX_ID)], backend: Backend
) -> OperationView:
    """Return one change."""
    for recorded in await backend.operation_log.operations(_KEPT):
        if recorded.operation.id == operation_id:
            return _view(recorded)
    raise ApiError(404, f"There is no operation {operation_id}, or none any more")


def _view(recorded: RecordedOperation) -> OperationView:
    now_ms = time.time_ns() // NANOS_PER_MILLI
    return recorded.operation.view(age_millis=max(0, now_ms - recorded.at_ms))
