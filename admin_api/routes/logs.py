"""The level of the log, read and changed while the sidecar runs: ``/quota/v1/log-level``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from admin_api.routes.callers import SuperUser
from admin_api.routes.common import Backend, home_router

router = home_router("/quota/v1", "sidecar")


class LogLevelBody(BaseModel):
    """From where on something is logged."""

    level: Literal["debug", "info", "warning", "error"]


@router.get("/log-level")
async def get_log_level(backend: Backend) -> LogLevelBody:
    """From where on the answering sidecar logs."""
    return LogLevelBody.model_validate({"level": backend.log_level.name})


@router.put("/log-level")
async def set_log_level(body: LogLevelBody, backend: Backend, _: SuperUser) -> LogLevelBody:
    """Log from another level on, until it is set again or the sidecar restarts."""
    backend.log_level.set(body.level)
    return body
