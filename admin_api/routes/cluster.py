"""The specification of the cluster: the limits of all traffic together, and the used part of them.

It states the limits of the resource group that the configuration names as ``cluster_group``, in terms of
a managed service: a rate for production and consumption together, and the share of production. Beside it
stands the rate of delayed messages, the limit of the group named as ``delayed_group``.
"""

from __future__ import annotations

from fastapi import Request, Response

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.errors import ApiError
from admin_api.requests.body import JsonObject
from admin_api.requests.conditions import Precondition, etag_of
from admin_api.routes.callers import SuperUser
from admin_api.routes.common import Backend, coordinator_router, name_operation
from admin_api.schemas.cluster import SpecificationPatch
from admin_api.schemas.definitions import GroupPatch
from coordinator.core.answer import to_wire
from coordinator.core.model import Dimension, Rates
from coordinator.insight.model.explain import UnknownGroup
from coordinator.insight.model.specification import SpecificationView
from coordinator.ports import NotFound

router = coordinator_router("/quota/v1/cluster", "cluster")

OFF = "There is no group for the whole cluster: set cluster_group in the sidecars' configuration"
NOT_APART = (
    "delayedRateInMsgs: delayed messages are not counted apart: set delayed_group in the sidecars' "
    "configuration"
)


@router.get("/specification")
async def get_specification(response: Response, backend: Backend) -> SpecificationView:
    """Return the cluster's limits and rates, and advice above four fifths of a limit."""
    name = _group(backend)
    try:
        found = await backend.store.read_group(name)
    except NotFound as error:
        raise ApiError(404, f"Nothing is specified yet: PUT it, or the group {name}") from error
    response.headers["ETag"] = etag_of(found.version)
    view = SpecificationView.of(name, found.group.limits, _used(backend, name))
    return await _with_delayed(backend, view)


@router.put(
    "/specification",
    status_code=204,
    response_class=Response,
    openapi_extra=SpecificationPatch.described(),
)
async def put_specification(
    request: Request, response: Response, backend: Backend, caller: SuperUser, content: JsonObject
) -> None:
    """Set the cluster's limits; absent rates are not limited."""
    name = _group(backend)
    body = SpecificationPatch.parse(content)
    wanted, delayed_rate = body.specification().limits(), body.delayed_rate_in_msgs
    delayed = await _delayed_patch(backend, delayed_rate)
    fields: dict[str, object] = {
        dimension.value: to_wire(wanted.of(dimension)) for dimension in Dimension
    }
    condition, patch = Precondition.of(request.headers), GroupPatch.parse(fields)
    written, operation = await definitions.put_group(backend, name, patch, condition, caller)
    response.headers["ETag"] = etag_of(written.version)
    name_operation(response, operation)
    if delayed is not None:
        await definitions.put_group(backend, backend.delayed_group, delayed, Precondition(), caller)


async def _delayed_patch(backend: AdminBackend, rate: int | None) -> GroupPatch | None:
    """Return the change of the group of delayed messages; None if there is none.

    It is checked here, before either group is written: a refusal after that would leave half a change.

    Raises:
        ApiError: 400, no such group is configured, or it cannot have that limit.
    """
    if rate is None:
        return None
    name = backend.delayed_group
    if not name:
        raise ApiError(400, NOT_APART)
    patch = GroupPatch.parse({Dimension.PUBLISH_MESSAGES.value: rate})
    current = await definitions.find_group(backend.store, name)
    try:
        await definitions.definition_after(backend, name, patch, current)
    except ApiError as error:
        raise ApiError(
            error.status, f"delayedRateInMsgs: of the group {name}: {error.reason}"
        ) from error
    return patch


async def _with_delayed(backend: AdminBackend, view: SpecificationView) -> SpecificationView:
    name = backend.delayed_group
    if not name:
        return view
    try:
        limit = (await backend.store.read_group(name)).group.limits.publish_messages
    except NotFound:
        limit = None
    return view.with_delayed(limit, _used(backend, name).publish_messages or 0)


def _group(backend: AdminBackend) -> str:
    if not backend.cluster_group:
        raise ApiError(404, OFF)
    return backend.cluster_group


def _used(backend: AdminBackend, name: str) -> Rates:
    try:
        rows = backend.views.group_view(name).brokers
    except UnknownGroup:
        return Rates()
    return Rates.from_mapping(
        {dimension: sum(row.admitted.of(dimension) or 0 for row in rows) for dimension in Dimension}
    )
