"""Every request has an id: in its answer, and in all its log lines.

A caller may give one (``X-Request-Id``), so that a chain of services has one; an id that could not stand
in a header or a log as it is gets replaced. Changes are logged with caller, answer and duration; reads
only at the level debug, since a dashboard reads every two seconds.
"""

from __future__ import annotations

import re
import time
import uuid

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from admin_api.requests.hosts import READING

HEADER = "X-Request-Id"

_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)

_log = structlog.get_logger("admin_api")


class RequestIds:
    """Gives every request its id; the outermost of all, so that refusals have one too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with the id bound to the log and added to the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        begun_ns, status = time.monotonic_ns(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, sending)
            finally:
                log = _log.debug if scope["method"] in READING else _log.info
                millis = (time.monotonic_ns() - begun_ns) / 1e6
                log(
                    "request",
                    method=scope["method"],
                    path=scope["path"],
                    status=status,
                    millis=round(millis, 1),
                )
