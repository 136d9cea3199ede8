"""What every route needs: the backend, the errors of the OpenAPI description, operations and pages."""

from __future__ import annotations

from typing import Annotated, Any, cast
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from pydantic import BaseModel

from admin_api.backend import AdminBackend
from coordinator.core.operations import Operation


class Problem(BaseModel):
    """Every answer that is not a success."""

    reason: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Problem, "description": "The request was refused; nothing has changed."},
    "503": {"model": Problem, "description": "ZooKeeper or the broker does not answer."},
}


def backend_of(request: Request) -> AdminBackend:
    """What answers a request; for what every route depends on, as a dependency less has to be solved."""
    return cast("AdminBackend", request.app.state.backend)


async def _backend_of(request: Request) -> AdminBackend:
    return backend_of(request)


OPERATION_HEADER = "Pulsar-Quota-Operation"
"""Names the operation that follows a change; Pulsar's tools do not mind it."""


def name_operation(response: Response, operation: Operation | None) -> None:
    """Say which operation follows the change that is answered, if one does."""
    if operation is not None:
        response.headers[OPERATION_HEADER] = str(operation.id)


Backend = Annotated[AdminBackend, Depends(_backend_of)]


def link_next(
    request: Request, response: Response, names: list[str], limit: int, last: str
) -> None:
    """Name the next page in a Link header (RFC 8288), if there are names after the last one shown."""
    if names and names[-1] > last:
        query = urlencode({"limit": limit, "after": last})
        response.headers["Link"] = f'<{request.url.path}?{query}>; rel="next"'
