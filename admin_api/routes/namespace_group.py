"""The group in the body of a namespace's own PUT, which PIP-82 asks for.

Pulsar makes a namespace with ``PUT /admin/v2/namespaces/{tenant}/{namespace}`` and its policies; among
these is ``resource_group_name``. It is a group of ours, so it is taken out before the broker sees the
policies (the broker has no such group), and the namespace is attached once the broker has made it. A body
without it, or that is no JSON object, goes on byte for byte.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Final

from fastapi import Request

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.changes.definitions import Owner
from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.body import without_doubles
from admin_api.requests.names import is_name
from admin_api.routes.callers import identified
from coordinator.ports import NotFound, Origin

FIELD: Final = "resource_group_name"
MAX_POLICIES_BYTES: Final = 1024 * 1024
"""Policies are some kilobytes."""

_PATH = re.compile(r"/admin/v2/namespaces/([^/]+)/([^/]+)/?")


@dataclass(frozen=True, slots=True)
class NamespacePut:
    """A namespace's PUT.

    Args:
        owner: the namespace.
        policies: the body for the broker.
        group: the group that the body names; None for no group.
        caller: with the right to attach the namespace, if a group is named.
    """

    owner: Owner
    policies: bytes
    group: str | None
    caller: Origin


async def read(request: Request, backend: AdminBackend) -> NamespacePut | None:
    """Return a namespace's PUT; None for any other request, whose body is not read.

    Raises:
        ApiError: 400, 403, 412 or 413: the body is too large, or names a group that cannot be attached.
    """
    path = _PATH.fullmatch(request.scope["path"]) if request.method == "PUT" else None
    if path is None:
        return None
    owner, content = Owner(path[1], path[2]), await _content(request)
    caller = await identified(request)
    try:
        policies = json.loads(content, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        if FIELD.encode() in content:
            raise ApiError(400, f"The body is not JSON: {error}") from error
        return NamespacePut(owner, content, None, caller)
    group = policies.pop(FIELD, None) if isinstance(policies, dict) else None
    if group is None:
        return NamespacePut(owner, content, None, caller)
    if not isinstance(group, str) or not is_name(group):
        raise ApiError(400, f"{FIELD}: must be a group's name, but is {json.dumps(group):.40}")
    access = backend.access
    if not access.is_admin_of(caller.actor, owner.tenant):
        raise ApiError(
            403, f"Role {caller.actor} is neither super-user nor admin of {owner.tenant}"
        )
    try:
        await backend.coordinator_loop.run(backend.store.read_group(group))
    except NotFound as error:
        raise ApiError(412, NO_SUCH_GROUP) from error
    caller = replace(caller, is_super_user=access.is_super_user(caller.actor))
    return NamespacePut(owner, json.dumps(policies).encode(), group, caller)


async def attach(put: NamespacePut, backend: AdminBackend) -> None:
    """Attach the namespace that the broker has made to the group that its PUT named, if any.

    Raises:
        ApiError: 412: the group was deleted meanwhile.
    """
    if put.group is None:
        return
    attaching = definitions.attach(backend, put.owner, put.group, put.caller)
    try:
        await backend.coordinator_loop.run(attaching)
    except NotFound as error:
        raise ApiError(412, NO_SUCH_GROUP) from error


async def _content(request: Request) -> bytes:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_POLICIES_BYTES:
            raise ApiError(413, f"The body is larger than {MAX_POLICIES_BYTES} bytes")
    return bytes(content)
