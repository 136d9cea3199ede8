"""The group among a namespace's policies: in the body of its own PUT, and where they are read.

Pulsar makes a namespace with ``PUT /admin/v2/namespaces/{tenant}/{namespace}`` and its policies; among
these is ``resource_group_name``. It is a group of ours, so it is taken out before the broker sees the
policies (the broker has no such group), and the namespace is attached once the broker has made it. A body
without it goes on byte for byte.

``GET`` of the same path answers with all policies. The broker's have no group of ours, so that of an
attached namespace is put into them.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from admin_api.backend import AdminBackend
from admin_api.changes import definitions
from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.body import without_doubles
from admin_api.requests.names import checked, is_name
from admin_api.routes.callers import acting_for
from coordinator.core.owners import TrafficOwner, namespace_owner
from coordinator.ports import (
    NotAllowed,
    NotFound,
    Origin,
    Protected,
    RelayedAnswer,
    RelayedRequest,
    Unreachable,
)

FIELD: Final = "resource_group_name"

_PATH = re.compile(r"/admin/v2/namespaces/([^/]+)/([^/]+)")


@dataclass(frozen=True, slots=True)
class NamespacePut:
    """A namespace's PUT.

    Args:
        owner: the namespace.
        policies: the body for the broker.
        group: the group that the body names.
        caller: with the right to attach the namespace.
    """

    owner: TrafficOwner
    policies: bytes
    group: str
    caller: Origin


async def read(
    asked: RelayedRequest, path: str, backend: AdminBackend, caller: Origin
) -> NamespacePut | None:
    """Return a namespace's PUT that names a group; None for any other request.

    Args:
        asked: the request.
        path: its path, decoded.
        backend: the ports of the sidecar.
        caller: whose request it is.

    Raises:
        ApiError: 400, 403, 409 or 412: the body is no JSON, or what it names cannot be attached.
        NotAllowed, StoreUnreachable: as `definitions.require_group`.
    """
    found = _PATH.fullmatch(path) if asked.method == "PUT" else None
    if found is None or not asked.body:
        return None
    try:
        policies = json.loads(asked.body, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The body is not JSON: {error}") from error
    group = policies.pop(FIELD, None) if isinstance(policies, dict) else None
    if group is None:
        return None
    if not isinstance(group, str) or not is_name(group):
        raise ApiError(400, f"{FIELD}: must be a group's name, but is {json.dumps(group):.40}")
    tenant, namespace = checked(found[1], 412, "Tenant"), checked(found[2], 412, "Namespace")
    owner, caller = namespace_owner(tenant, namespace), acting_for(tenant, caller, backend)
    await backend.coordinator_loop.run(
        definitions.require_attachable(backend, owner, group, caller)
    )
    return NamespacePut(owner, json.dumps(policies).encode(), group, caller)


async def group_of_read(asked: RelayedRequest, path: str, backend: AdminBackend) -> str | None:
    """Return the group of the namespace whose policies are read; None for any other request."""
    found = _PATH.fullmatch(path) if asked.method == "GET" else None
    if found is None:
        return None

    async def group() -> str | None:
        return definitions.group_of(
            namespace_owner(found[1], found[2]), backend.views.catalogue().attachments
        )

    return await backend.coordinator_loop.run(group())


def uncoded(asked: RelayedRequest) -> RelayedRequest:
    """Return a request whose answer can be read here, since the broker does not compress it."""
    kept = [(name, value) for name, value in asked.headers if name.lower() != b"accept-encoding"]
    return replace(asked, headers=[*kept, (b"accept-encoding", b"identity")])


async def with_group(answer: RelayedAnswer, group: str) -> RelayedAnswer:
    """Return the broker's answer with the group among the policies; any other answer as it is.

    Raises:
        BrokerUnreachable: the broker went away in the middle.
    """
    content = b"".join([piece async for piece in answer.body])
    try:
        policies = json.loads(content)
    except ValueError:
        policies = None
    if answer.status == HTTPStatus.OK and isinstance(policies, dict):
        content = json.dumps(policies | {FIELD: group}).encode()
    kept = [(name, value) for name, value in answer.headers if name.lower() != b"content-length"]
    length = str(len(content)).encode()
    return replace(answer, headers=[*kept, (b"content-length", length)], body=_one_piece(content))


async def _one_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def attach(put: NamespacePut, backend: AdminBackend) -> None:
    """Attach the namespace that the broker has made to the group that its PUT named.

    Raises:
        ApiError: as when it is attached by itself; the reason says that the namespace is made.
    """
    attaching = definitions.attach(backend, put.owner, put.group, put.caller)
    try:
        await backend.coordinator_loop.run(attaching)
    except NotFound as error:
        raise _not_attached(put, 412, NO_SUCH_GROUP) from error
    except (NotAllowed, Protected) as error:
        raise _not_attached(put, 403, str(error)) from error
    except Unreachable as error:
        raise _not_attached(put, 503, str(error)) from error
    except ApiError as error:
        raise _not_attached(put, error.status, error.reason) from error


def _not_attached(put: NamespacePut, status: int, reason: str) -> ApiError:
    return ApiError(
        status,
        f"{put.owner} was made, but attaching it to {put.group} failed: {reason}; attach it with PUT "
        f"/admin/v2/namespaces/{put.owner}/resourcegroup/{put.group}",
    )
