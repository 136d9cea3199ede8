"""Endpoints beyond Pulsar's, by sidecar: health, readiness, members, and unreadable entries."""

from __future__ import annotations

from admin_api.errors import ApiError
from admin_api.routes.common import Backend, home_router
from admin_api.schemas_live import Health, MemberBody, Ready
from coordinator.core.lifecycle import Lifecycle
from coordinator.insight.model.views import HealthView

router = home_router("/quota/v1", "sidecar")

#: For a supervisor of the process, which has no token.
open_router = home_router("/quota/v1", "sidecar")

_WHY_NOT_READY = {
    Lifecycle.STARTING: "it has not joined the other sidecars yet",
    Lifecycle.LEARNING: "it waits for every member to say what it uses",
    Lifecycle.DRAINING: "it is being shut down",
    Lifecycle.STOPPED: "it is being shut down",
}


@router.get("/members")
async def list_members(backend: Backend) -> list[MemberBody]:
    """Return every live sidecar that this one knows, itself included."""
    return [MemberBody.of(member) for member in backend.views.health().members]


@router.get("/health")
async def get_health(backend: Backend) -> Health:
    """Return this sidecar's health. Always 200: the answer itself shows that the sidecar works."""
    views = backend.views
    return Health.of(views.health(), views.recording(), backend.enforcement_path)


@open_router.get("/ready")
async def get_ready(backend: Backend) -> Ready:
    """Return 200 when this sidecar may be given traffic, 503 and the reason when not."""
    health = backend.views.health()
    if not health.ready:
        raise ApiError(503, f"{health.state.value}: {_why_not_ready(health)}")
    return Ready(ready=True, state=health.state.value)


@router.get("/catalogue/faults")
async def list_faults(backend: Backend) -> dict[str, str]:
    """Return the store's entries that cannot be read: path to reason."""
    return dict(backend.views.catalogue().faults)


def _why_not_ready(health: HealthView) -> str:
    troubles = "; ".join(trouble.value for trouble in health.troubles)
    return troubles or _WHY_NOT_READY.get(health.state, "it says so itself, without a reason")
