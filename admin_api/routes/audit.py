"""The audit trail, and the rollback of one change: ``/quota/v1/audit``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from admin_api.changes.rollback import roll_back
from admin_api.errors import ApiError
from admin_api.routes.callers import SuperUser
from admin_api.routes.common import MAX_ID, Backend, coordinator_router, name_operation
from coordinator.insight.model.definitions import AuditView
from coordinator.ports import AUDIT_LENGTH, NotFound

router = coordinator_router("/quota/v1/audit", "audit")

EntryId = Annotated[int, Path(ge=0, le=MAX_ID)]


@router.get("")
async def list_entries(
    backend: Backend,
    _: SuperUser,
    limit: Annotated[int, Query(ge=1, le=AUDIT_LENGTH)] = 100,
    before: Annotated[int | None, Query(ge=0, le=MAX_ID, description="only smaller ids")] = None,
) -> list[AuditView]:
    """Return the newest changes; 1,000 of super-users are kept, and 100 of each tenant's admins."""
    return [AuditView.of(entry) for entry in await backend.store.audit_entries(limit, before)]


@router.get("/{entry_id}")
async def get_entry(entry_id: EntryId, backend: Backend, _: SuperUser) -> AuditView:
    """Return one change."""
    try:
        return AuditView.of(await backend.store.audit_entry(entry_id))
    except NotFound as error:
        raise ApiError(404, f"There is no audit entry {entry_id}, or none any more") from error


@router.post("/{entry_id}/rollback", status_code=204, response_class=Response)
async def roll_entry_back(
    entry_id: EntryId, response: Response, backend: Backend, caller: SuperUser
) -> None:
    """Restore the state before one change; refused if something has changed since."""
    name_operation(response, await roll_back(backend, entry_id, caller))
