"""What every route needs: the backend, and the errors that the OpenAPI description mentions."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Request
from pydantic import BaseModel

from admin_api.backend import AdminBackend


class Problem(BaseModel):
    """Every answer that is not a success."""

    reason: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Problem, "description": "The request was refused; nothing has changed."},
    "503": {"model": Problem, "description": "ZooKeeper or the broker does not answer."},
}


async def _backend_of(request: Request) -> AdminBackend:
    return cast("AdminBackend", request.app.state.backend)


Backend = Annotated[AdminBackend, Depends(_backend_of)]
