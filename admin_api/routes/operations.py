"""Changes under way: ``/quota/v1/operations``. Any sidecar knows all of them."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Path, Query

from admin_api.errors import ApiError
from admin_api.routes.common import Backend, home_router
from admin_api.schemas_board import OperationBody
from coordinator.ports import OPERATIONS_LENGTH

router = home_router("/quota/v1/operations", "operations")

_MAX_ID = 2**31 - 1
_NANOS_PER_MILLI = 1_000_000


@router.get("")
async def list_operations(
    backend: Backend,
    group: Annotated[str, Query(description="only this group's")] = "",
    limit: Annotated[int, Query(ge=1, le=OPERATIONS_LENGTH)] = 100,
) -> list[OperationBody]:
    """Return the newest changes, newest first; the store keeps the last 1,000 that have ended."""
    found = await backend.following.operations(OPERATIONS_LENGTH if group else limit)
    wanted = [each for each in found if group in ("", each.operation.group)][:limit]
    now_ms = time.time_ns() // _NANOS_PER_MILLI
    return [OperationBody.of(recorded, now_ms) for recorded in wanted]


@router.get("/{operation_id}")
async def get_operation(
    operation_id: Annotated[int, Path(ge=0, le=_MAX_ID)], backend: Backend
) -> OperationBody:
    """Return one change."""
    now_ms = time.time_ns() // _NANOS_PER_MILLI
    for recorded in await backend.following.operations(OPERATIONS_LENGTH):
        if recorded.operation.id == operation_id:
            return OperationBody.of(recorded, now_ms)
    raise ApiError(404, f"There is no operation {operation_id}, or none any more")
