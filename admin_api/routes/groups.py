"""Pulsar's resource-group REST: ``/admin/v2/resourcegroups[/{name}]``.

Answers are those of a live Pulsar 4.2.4, byte for byte where its tools read them. PIP-82 calls the path
``resourcegroup``; it answers too. Beyond Pulsar, an answer names the definition's version (ETag) and a
change may name the one that it replaces (If-Match), so that two admins cannot overwrite each other.
"""

from __future__ import annotations

from functools import partial

from fastapi import Request, Response

from admin_api.changes import definitions
from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.body import JsonObject
from admin_api.requests.conditions import Precondition, etag_of
from admin_api.requests.names import GroupName
from admin_api.routes.callers import SuperUser
from admin_api.routes.common import Backend, coordinator_router, name_operation
from admin_api.schemas.definitions import GroupPatch, PulsarGroup
from coordinator.ports import InUse, NotFound

router = coordinator_router("/admin/v2", "resource groups")


async def list_groups(backend: Backend) -> list[str]:
    """Return the names of all resource groups."""
    return sorted(definitions.current_catalogue(backend.views).groups)


async def get_group(name: GroupName, response: Response, backend: Backend) -> PulsarGroup:
    """Return one resource group's limits for the cluster, per second; -1 = not limited."""
    found = await definitions.read_group(backend, name)
    response.headers["ETag"] = etag_of(found.version)
    return PulsarGroup.of(found.group)


async def put_group(
    name: GroupName,
    request: Request,
    response: Response,
    backend: Backend,
    caller: SuperUser,
    content: JsonObject,
) -> None:
    """Create a resource group, or change the fields that are sent; -1 lifts a limit."""
    condition = Precondition.of(request.headers)
    patch = GroupPatch.parse(content)
    written, operation = await definitions.put_group(backend, name, patch, condition, caller)
    response.headers["ETag"] = etag_of(written.version)
    name_operation(response, operation)


async def delete_group(
    name: GroupName, request: Request, backend: Backend, caller: SuperUser
) -> None:
    """Delete a resource group that has no attachments."""
    condition = Precondition.of(request.headers)
    try:
        await definitions.delete_group(backend, name, condition, caller)
    except NotFound as error:
        raise ApiError(404, NO_SUCH_GROUP) from error
    except InUse as error:
        raise definitions.in_use(backend, name) from error


for _path in ("/resourcegroups", "/resourcegroup"):
    _shown = _path == "/resourcegroups"
    # The name takes the rest of the path, so that a name with a slash or without a character is
    # refused as a name. PIP-82 lists the groups at the path with the slash at its end.
    _named = _path + "/{name:path}"
    _silent = partial(
        router.api_route,
        _named,
        status_code=204,
        response_class=Response,
        include_in_schema=_shown,
    )
    router.get(_path, include_in_schema=_shown)(list_groups)
    router.get(_path + "/", include_in_schema=False)(list_groups)
    router.get(_named, response_model_exclude_none=True, include_in_schema=_shown)(get_group)
    _silent(methods=["PUT"], openapi_extra=GroupPatch.described())(put_group)
    _silent(methods=["DELETE"])(delete_group)
