"""Endpoints beyond Pulsar's, by sidecar: health, readiness, members, log level, unreadable entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from admin_api.errors import ApiError
from admin_api.requests.body import JsonObject
from admin_api.routes.callers import SuperUser
from admin_api.routes.common import Backend, coordinator_router
from admin_api.schemas.definitions import RequestBody
from coordinator.core.lifecycle import Lifecycle
from coordinator.insight.model.views import HealthView, MemberView, ReadyView

router = coordinator_router("/quota/v1", "sidecar")

#: For a supervisor of the process, which has no token.
open_router = coordinator_router("/quota/v1", "sidecar")

_WHY_NOT_READY = {
    Lifecycle.STARTING: "it has not joined the other sidecars yet",
    Lifecycle.LEARNING: "it waits for every member to say what it uses",
    Lifecycle.DRAINING: "it is being shut down",
    Lifecycle.STOPPED: "it is being shut down",
}


@router.get("/members")
async def list_members(backend: Backend) -> tuple[MemberView, ...]:
    """Return every live sidecar that this one knows, itself included."""
    return backend.views.health().members


@router.get("/health")
async def get_health(backend: Backend) -> HealthView:
    """Return this sidecar's health. Always 200: the answer itself shows that the sidecar works."""
    views = backend.views
    return replace(
        views.health(),
        recording=views.recording(),
        enforcement_path=backend.enforcement_path,
        proves_roles=backend.proves_roles,
    )


@open_router.get("/ready")
async def get_ready(backend: Backend) -> ReadyView:
    """Return 200 when this sidecar may be given traffic, 503 and the reason when not."""
    health = backend.views.health()
    if not health.ready:
        raise ApiError(503, f"{health.state.value}: {_why_not_ready(health)}")
    return ReadyView(ready=True, state=health.state)


@router.get("/catalogue/faults")
async def list_faults(backend: Backend) -> dict[str, str]:
    """Return the store's entries that cannot be read: path to reason."""
    return dict(backend.views.catalogue().faults)


class LogLevelBody(RequestBody):
    """The level of the log."""

    level: Literal["debug", "info", "warning", "error"]


@router.get("/log-level")
async def get_log_level(backend: Backend) -> LogLevelBody:
    """Return the level of the answering sidecar's log."""
    return LogLevelBody.model_validate({"level": backend.log_level.name})


@router.put("/log-level", openapi_extra=LogLevelBody.described())
async def set_log_level(backend: Backend, _: SuperUser, content: JsonObject) -> LogLevelBody:
    """Set the level of the log, until it is set again or the sidecar restarts."""
    body = LogLevelBody.parse(content)
    backend.log_level.set(body.level)
    return body


def _why_not_ready(health: HealthView) -> str:
    degradations = "; ".join(degradation.value for degradation in health.degradations)
    return degradations or _WHY_NOT_READY.get(health.state, "it says so itself, without a reason")
