"""Escaped traffic: the messages that went round the gate."""

from __future__ import annotations

from admin_api.routes.common import Backend, coordinator_router
from admin_api.schemas_reconciliation import ReconciliationBody
from coordinator.reconciliation.engine.reconciliation import ReconciliationState

router = coordinator_router("/quota/v1", "quota")


@router.get("/reconciliation")
async def reconciliation(backend: Backend) -> ReconciliationBody:
    """Return the escaped traffic of each namespace; none where there is no gate."""
    state = ReconciliationState() if backend.reconciling is None else backend.reconciling.state()
    return ReconciliationBody.of(state)
