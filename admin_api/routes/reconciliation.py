"""Escaped traffic: what went round the gate."""

from __future__ import annotations

from admin_api.routes.common import Backend, coordinator_router
from coordinator.insight.model.reconciliation_views import NOT_RECONCILED, ReconciliationView

router = coordinator_router("/quota/v1", "quota")


@router.get("/reconciliation")
async def reconciliation(backend: Backend) -> ReconciliationView:
    """Return the escaped traffic of each namespace and class; none where there is no gate."""
    return NOT_RECONCILED if backend.reconciling is None else backend.reconciling.view()
