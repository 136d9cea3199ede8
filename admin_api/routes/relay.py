"""Listed requests go on to the own broker: those of clients and pulsar-admin around groups (`allowed`).

Lookups ask for the listener that has a gate before it (`lookups`), and the group among a namespace's
policies is ours, written and read (`namespace_group`); all else is passed on untouched. Our own paths
never pass, also not with a method that they do not know: there would be two answers to one question. A
request that is not on the list gets 403 and the address of the broker; 404 would tell a tool that its
topic is gone.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import cast

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from admin_api.backend import AdminBackend
from admin_api.errors import ApiError
from admin_api.relay import allowed, lookups
from admin_api.requests.body import read_body
from admin_api.routes import namespace_group
from admin_api.routes.callers import AnyCaller
from admin_api.routes.common import backend_of
from coordinator.ports import BrokerRelay, BrokerUnreachable, RelayedAnswer, RelayedRequest

_log = structlog.get_logger("admin_api")

router = APIRouter(include_in_schema=False)

PATHS = ("/admin/{rest:path}", "/lookup/{rest:path}", "/topics/{rest:path}")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

MAX_RELAYED_BYTES = 1024 * 1024
"""The policies of a namespace, the largest body that passes, are some kilobytes."""

_SHOWN_LETTERS = 200


class Relayed(StreamingResponse):
    """The broker's answer, released in whatever way its sending ends."""

    def __init__(self, answer: RelayedAnswer) -> None:
        super().__init__(answer.body, answer.status)
        self.raw_headers = list(answer.headers)
        self._close = answer.close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; when the broker breaks off, the server sees it unfinished and hangs up as well."""
        try:
            await super().__call__(scope, receive, send)
        except BrokerUnreachable as error:
            _log.warning("relayed answer broke off", path=scope["path"], reason=str(error))
        finally:
            await self._close()


async def relay(request: Request, caller: AnyCaller) -> Response:
    """Pass a request on the list to the broker."""
    _refuse_own_paths(request)
    backend = backend_of(request)
    if backend.relay is None:
        raise HTTPException(404)
    asked = await _read(request, backend, backend.relay)
    listener = backend.gate_listener
    if listener and lookups.is_lookup(asked):
        answer = await _send(lookups.request_for(listener, asked), backend.relay)
        return Relayed(replace(answer, headers=lookups.answered_for(listener, answer.headers)))
    path = request.scope["path"]
    group = await namespace_group.group_of_read(asked, path, backend)
    if group is not None:
        return Relayed(await _read_policies(asked, group, backend.relay))
    put = await namespace_group.read(asked, path, backend, caller)
    if put is None:
        return Relayed(await _send(asked, backend.relay))
    answer = await _send(replace(asked, body=put.policies), backend.relay)
    if answer.status < HTTPStatus.MULTIPLE_CHOICES:
        try:
            await namespace_group.attach(put, backend)
        except BaseException:
            await answer.close()
            raise
    return Relayed(answer)


for _path in PATHS:
    router.api_route(_path, methods=list(METHODS))(relay)


def _refuse_own_paths(request: Request) -> None:
    # A route of ours with this method has answered already; only other methods are left.
    routes = cast("list[BaseRoute]", request.app.state.routes)
    if any(route.matches(request.scope)[0] is not Match.NONE for route in routes):
        raise HTTPException(405)


async def _read(request: Request, backend: AdminBackend, relay: BrokerRelay) -> RelayedRequest:
    """Return a request on the list; raises ApiError 403 for another one, 413 for a large body."""
    # What was sent, still encoded: a topic's name may hold an encoded slash or question mark.
    path = cast("bytes", request.scope["raw_path"])
    query = cast("bytes", request.scope["query_string"])
    if not allowed.passes(request.method, path, query):
        shown = f"{request.method} {path.decode('latin-1'):.{_SHOWN_LETTERS}}"
        reason = (
            f"{shown} does not pass: this sidecar passes lookups, tenants, namespaces and groups, in "
            f"plain spelling; ask the broker itself: {relay.address}"
        )
        backend.refusals.add("path", request.client.host if request.client else "", reason)
        raise ApiError(403, reason)
    body = await read_body(request, MAX_RELAYED_BYTES)
    target = path + b"?" + query if query else path
    return RelayedRequest(request.method, target, request.headers.raw, body)


async def _read_policies(asked: RelayedRequest, group: str, relay: BrokerRelay) -> RelayedAnswer:
    """Return a namespace's policies with its group; raises ApiError 502."""
    answer = await _send(namespace_group.uncoded(asked), relay)
    try:
        return await namespace_group.with_group(answer, group)
    except BrokerUnreachable as error:
        await answer.close()
        raise ApiError(502, f"{error}; try again") from error
    except BaseException:
        await answer.close()
        raise


async def _send(asked: RelayedRequest, relay: BrokerRelay) -> RelayedAnswer:
    """Return the broker's answer, as soon as its head has arrived; raises ApiError 502."""
    try:
        return await relay.relay(asked)
    except BrokerUnreachable as error:
        raise ApiError(502, f"{error}; try again") from error
