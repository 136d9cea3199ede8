"""The routes by which an owner of traffic is attached to a group, beside tenants and namespaces."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, Response

from admin_api.changes import definitions
from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.names import GroupName
from admin_api.routes.common import Backend, name_operation
from coordinator.core.owners import TrafficOwner, attached
from coordinator.ports import NotFound, Origin


def add_owner_routes(
    router: APIRouter,
    path: str,
    owner: Callable[..., Coroutine[Any, Any, TrafficOwner]],
    caller: Callable[..., Coroutine[Any, Any, Origin]],
    *,
    attaching: str,
    reading: str,
    detaching: str,
) -> None:
    """Add the routes of one kind of owners: PUT and POST with a group's name behind, GET and DELETE.

    Args:
        router: gets the routes.
        path: of an owner's group.
        owner: the dependency that reads the owner from the path.
        caller: the dependency that returns the caller, if he may attach it.
        attaching: a sentence on PUT and POST, for the reference.
        reading: on GET.
        detaching: on DELETE.
    """
    found, by = Depends(owner), Depends(caller)

    async def attach(
        name: GroupName,
        response: Response,
        backend: Backend,
        of: TrafficOwner = found,
        caller: Origin = by,
    ) -> None:
        try:
            operation = await definitions.attach(backend, of, name, caller)
        except NotFound as error:
            raise ApiError(412, NO_SUCH_GROUP) from error
        name_operation(response, operation)

    async def read(backend: Backend, of: TrafficOwner = found) -> Response:
        # As Pulsar does it: the bare name, and an empty body without one.
        attachments = definitions.current_catalogue(backend.views).attachments
        group = attached(attachments, of.kind).get(of.name, "")
        return Response(group, media_type="application/json")

    async def detach(
        response: Response, backend: Backend, of: TrafficOwner = found, caller: Origin = by
    ) -> None:
        name_operation(response, await definitions.detach(backend, of, caller))

    silent = partial(router.api_route, status_code=204, response_class=Response)
    silent(path + "/{name}", methods=["POST"], description=attaching)(attach)
    silent(path + "/{name}", methods=["PUT"], description=attaching)(attach)
    router.get(path, response_class=Response, description=reading)(read)
    silent(path, methods=["DELETE"], description=detaching)(detach)
