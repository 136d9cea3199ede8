"""Escaped traffic: the messages that went round the gate."""

from __future__ import annotations

from admin_api.routes.common import Backend, coordinator_router
from coordinator.insight.model.reconciliation_views import ReconciliationView
from coordinator.reconciliation.engine.reconciliation import ReconciliationState

router = coordinator_router("/quota/v1", "quota")


@router.get("/reconciliation")
async def reconciliation(backend: Backend) -> ReconciliationView:
    """Return the escaped traffic of each namespace; none where there is no gate."""
    state = ReconciliationState() if backend.reconciling is None else backend.reconciling.state()
    return state.view()
