"""The common part of all routes: the backend and its loop, and the name of an operation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from admin_api.backend import AdminBackend
from admin_api.openapi import PROBLEMS
from coordinator.insight.model.explain import UnknownGroup
from coordinator.insight.model.operations import Operation


def backend_of(request: Request) -> AdminBackend:
    """Return the backend, for code that does not run on the coordinator's loop."""
    return cast("AdminBackend", request.app.state.backend)


async def _backend_of(request: Request) -> AdminBackend:
    # A coroutine: a plain function would run in a thread of a pool, for each request.
    return backend_of(request)


Backend = Annotated[AdminBackend, Depends(_backend_of)]

MAX_ID: Final = 2**31 - 1
"""The largest number that ZooKeeper gives to a node: of an audit entry, or an operation."""

Handler = Callable[..., Coroutine[Any, Any, Any]]


def is_given_backend(handler: Callable[..., Any]) -> bool:
    """Return whether a handler has the parameter by which it runs on the coordinator's loop."""
    return "backend" in inspect.signature(handler).parameters


class CoordinatorRoute(APIRoute):
    """Runs a handler that is given the backend on the coordinator's loop (admin_api.coordinator_loop)."""

    def __init__(self, path: str, endpoint: Handler, **settings: Any) -> None:
        super().__init__(path, _on_coordinator_loop(endpoint), **settings)


def _on_coordinator_loop(handler: Handler) -> Handler:
    if not is_given_backend(handler):
        return handler

    @wraps(handler)
    async def on_coordinator_loop(*, backend: AdminBackend, **given: Any) -> Any:
        return await backend.coordinator_loop.run(handler(backend=backend, **given))

    return on_coordinator_loop


def coordinator_router(prefix: str, tag: str) -> APIRouter:
    """Return a router whose handlers run on the coordinator's loop if they are given the backend."""
    return APIRouter(prefix=prefix, tags=[tag], responses=PROBLEMS, route_class=CoordinatorRoute)


def require_defined(backend: AdminBackend, name: str) -> None:
    """Refuse a name that is neither a group's nor a scalable topic's with limits; raises UnknownGroup."""
    if name not in backend.views.defined():
        raise UnknownGroup(name)


OPERATION_HEADER = "Pulsar-Quota-Operation"
"""The header that names the operation of a change; Pulsar's tools ignore it."""


def name_operation(response: Response, operation: Operation | None) -> None:
    """Name the operation of the answered change in a header, if there is one."""
    if operation is not None:
        response.headers[OPERATION_HEADER] = str(operation.id)
