"""Every path of Pulsar's admin and lookup REST that is not ours goes to the own broker, untouched.

There are three exceptions. A path that the broker might read as another one is refused (`targets`), a
lookup asks for the listener that has a gate before it (`lookups`), and a group that a namespace's own PUT
names is ours (`namespace_group`).

So a sidecar's address serves as ``webServiceUrl`` of any Pulsar tool. Our own paths never pass, also not
with a method that they do not know: there would be two answers to one question. Whether a request is
allowed is the broker's to say, by the credentials that come with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from typing import cast

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from admin_api.backend import AdminBackend
from admin_api.errors import ApiError
from admin_api.relay import lookups, targets
from admin_api.routes import namespace_group
from admin_api.routes.common import backend_of
from admin_api.routes.namespace_group import NamespacePut
from coordinator.ports import BrokerUnreachable, RelayedAnswer, RelayedRequest

_log = structlog.get_logger("admin_api")

router = APIRouter(include_in_schema=False)

PATHS = ("/admin/v2/{rest:path}", "/admin/v3/{rest:path}", "/lookup/{rest:path}")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

MAX_RELAYED_BYTES = 1024 * 1024 * 1024
"""A function's or connector's package is the largest thing that Pulsar's tools send."""


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


async def relay(request: Request) -> Response:
    """Pass a request to the broker."""
    _refuse_own_paths(request)
    backend = backend_of(request)
    outgoing, listener = outgoing_of(request), backend.gate_listener
    put = await _namespace_put(request, backend)
    if put is not None:
        return await _make_namespace(put, outgoing, backend)
    if not listener or not lookups.is_lookup(request.scope["path"]):
        return Relayed(await send(outgoing, backend))
    path, _, query = outgoing.target.partition(b"?")
    asked = replace(
        outgoing,
        target=path + b"?" + lookups.query_for(listener, query),
        headers=lookups.headers_for(listener, outgoing.headers),
    )
    answer = await send(asked, backend)
    return Relayed(replace(answer, headers=lookups.answered_for(listener, answer.headers)))


async def _namespace_put(request: Request, backend: AdminBackend) -> NamespacePut | None:
    try:
        return await namespace_group.read(request, backend)
    except ClientDisconnect as error:
        raise ApiError(400, "The body broke off") from error


async def _make_namespace(
    put: NamespacePut, outgoing: RelayedRequest, backend: AdminBackend
) -> Response:
    """Have the broker make a namespace, and attach it to the group that its PUT names."""
    length = str(len(put.policies)).encode()
    headers = [
        (name, length if name.lower() == b"content-length" else value)
        for name, value in outgoing.headers
    ]
    body = None if outgoing.body is None else _pieces(put.policies)
    answer = await send(replace(outgoing, headers=headers, body=body), backend)
    if answer.status < HTTPStatus.MULTIPLE_CHOICES:
        try:
            await namespace_group.attach(put, backend)
        except BaseException:
            await answer.close()
            raise
    return Relayed(answer)


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


def outgoing_of(request: Request) -> RelayedRequest:
    """Return a request in the form for the broker.

    Raises:
        ApiError: 400 or 413.
    """
    return RelayedRequest(request.method, _target(request), request.headers.raw, _body(request))


async def send(outgoing: RelayedRequest, backend: AdminBackend) -> RelayedAnswer:
    """Return the broker's answer, as soon as its head has arrived.

    Raises:
        ApiError: 502 when it does not answer, 400 when the request breaks off.
        HTTPException: 404 when nothing is passed to the broker.
    """
    if backend.relay is None:
        raise HTTPException(404)
    try:
        return await backend.relay.relay(outgoing)
    except BrokerUnreachable as error:
        raise ApiError(502, f"{error}; try again") from error
    except ClientDisconnect as error:
        raise ApiError(400, "The body broke off") from error


for _path in PATHS:
    router.api_route(_path, methods=list(METHODS))(relay)


def _refuse_own_paths(request: Request) -> None:
    # A route of ours with this method has answered already; only other methods are left.
    routes = cast("list[BaseRoute]", request.app.state.routes)
    if any(route.matches(request.scope)[0] is not Match.NONE for route in routes):
        raise HTTPException(405)


def _target(request: Request) -> bytes:
    # What was sent, still encoded: a topic's name may hold an encoded slash or question mark.
    path = cast("bytes", request.scope["raw_path"])
    query = cast("bytes", request.scope["query_string"])
    try:
        targets.check_target(path, query)
    except ApiError as error:
        host = request.client.host if request.client else ""
        backend_of(request).refusals.add("path", host, error.reason)
        raise
    return path + b"?" + query if query else path


def _body(request: Request) -> AsyncIterator[bytes] | None:
    headers = request.headers
    if "content-length" not in headers and "transfer-encoding" not in headers:
        return None
    # The server has made sure that it is a number.
    if int(headers.get("content-length", "0")) > MAX_RELAYED_BYTES:
        raise _too_large()
    return _bounded(request)


async def _bounded(request: Request) -> AsyncIterator[bytes]:
    seen = 0
    async for piece in request.stream():
        seen += len(piece)
        if seen > MAX_RELAYED_BYTES:
            raise _too_large()
        if piece:
            yield piece


def _too_large() -> ApiError:
    return ApiError(413, f"The body is larger than {MAX_RELAYED_BYTES} bytes")
