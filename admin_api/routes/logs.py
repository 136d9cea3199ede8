"""The level of the log, read and changed while the sidecar runs: ``/quota/v1/log-level``."""

from __future__ import annotations

from typing import Literal

from admin_api.requests.body import JsonObject
from admin_api.routes.callers import SuperUser
from admin_api.routes.common import Backend, coordinator_router
from admin_api.schemas.definitions import RequestBody

router = coordinator_router("/quota/v1", "sidecar")


class LogLevelBody(RequestBody):
    """The level of the log."""

    level: Literal["debug", "info", "warning", "error"]


@router.get("/log-level")
async def get_log_level(backend: Backend) -> LogLevelBody:
    """Return the level of the answering sidecar's log."""
    return LogLevelBody.model_validate({"level": backend.log_level.name})


# The body is read by hand, which bounds it (see `body`), so its schema is stated by hand as well.
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": LogLevelBody.model_json_schema()}},
    }
}


@router.put("/log-level", openapi_extra=_BODY)
async def set_log_level(backend: Backend, _: SuperUser, content: JsonObject) -> LogLevelBody:
    """Set the level of the log, until it is set again or the sidecar restarts."""
    body = LogLevelBody.parse(content)
    backend.log_level.set(body.level)
    return body
