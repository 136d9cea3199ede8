"""One shape for all errors: a status and ``{"reason": "..."}``, as Pulsar has it.

Pulsar's tools print the reason and nothing else, so a reason names what is wrong and, where there is
one, the remedy. Pulsar itself leaves the shape in three places (a stack trace as plain
text with 500, the JSON parser's text with 400, an HTML page for an unknown path); here there is no such
place. A stack trace goes to the log, once. Pulsar's tools print a reason raw: text from a request or from
a broker's answer is escaped in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinator.insight.model.explain import UnknownBroker, UnknownGroup
from coordinator.insight.model.printable import printable
from coordinator.ports import NotAllowed, Protected, Refused, Unreachable

NO_SUCH_GROUP = "ResourceGroup does not exist"
GROUP_IN_USE = "ResourceGroup is in use"
NO_SUCH_NAMESPACE = "Namespace does not exist"
NO_SUCH_TENANT = "Tenant does not exist"

_log = structlog.get_logger("admin_api")

_INPUT_SHOWN = 40


class ApiError(Exception):
    """A refused request: the status, the reason, and headers to answer with."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers


def reason_response(
    status: int, reason: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return an error in the shape that every client of this API gets."""
    return JSONResponse({"reason": printable(reason)}, status, headers)


def sentence_of(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return pydantic's errors as one line: ``field: its fault; ...``."""
    # The first part of a parameter's location is its place ("query"), which the caller knows.
    found = ((".".join(map(str, error["loc"][-1:])), _fault_of(error)) for error in errors)
    return "; ".join(f"{field}: {message}" if field else message for field, message in found)


def _fault_of(error: Mapping[str, Any]) -> str:
    """Return pydantic's message in the words of our own: what a value must be, and what it is."""
    message = str(error["msg"])
    wanted = message.removeprefix("Input should be ")
    if wanted == message:
        return message
    given = json.dumps(error.get("input"), default=str)[:_INPUT_SHOWN]
    return f"must be {wanted.partition(', unable to')[0]}, but is {given}"


def _advice(request: Request) -> str:
    if request.method == "GET":
        return "try again"
    return "the change may have been made or not, so read before you try again"


def _answer_http(request: Request, error: HTTPException) -> JSONResponse:
    path = request.url.path
    if error.status_code == 404:
        return reason_response(404, f"Nothing answers under {path}")
    if error.status_code == 405:
        # Starlette names the methods of one route only, and a path has one route per method.
        routes: list[BaseRoute] = request.app.state.routes
        matching = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
        allowed = ", ".join(sorted({method for r in matching for method in _methods_of(r)}))
        reason = f"{request.method} is not allowed under {path}; use {allowed}"
        return reason_response(405, reason, {"Allow": allowed})
    return reason_response(error.status_code, str(error.detail), error.headers)


def _methods_of(route: BaseRoute) -> set[str]:
    return (route.methods or set()) if isinstance(route, Route) else set()


Answer = Callable[[Request, Any], JSONResponse]

_ANSWERS: Final[Mapping[type[Exception], Answer]] = {
    ApiError: lambda _, error: reason_response(error.status, error.reason, error.headers),
    Unreachable: lambda request, error: reason_response(503, f"{error}; {_advice(request)}"),
    Protected: lambda _, error: reason_response(403, str(error)),
    NotAllowed: lambda _, error: reason_response(403, str(error)),
    # For errors that no route handles: an entry that cannot be read, a race lost for good.
    Refused: lambda _, error: reason_response(409, f"The store refused: {error}"),
    UnknownGroup: lambda _, __: reason_response(404, NO_SUCH_GROUP),
    UnknownBroker: lambda _, error: reason_response(404, f"Broker {error} is no member"),
    RequestValidationError: lambda _, error: reason_response(400, sentence_of(error.errors())),
    # For the log of requests; the sender of half a request is gone.
    ClientDisconnect: lambda _, __: reason_response(400, "The body broke off"),
    HTTPException: _answer_http,
}
"""The answer to each error that a handler may raise."""


async def _answer(answer: Answer, request: Request, error: Exception) -> JSONResponse:
    # A coroutine: a plain function would run in a thread of a pool.
    return answer(request, error)


class UnexpectedErrors:
    """Turns an unexpected exception into a logged 500.

    Starlette's own handler of last resort raises the exception again after it has answered, and the
    server would write the same stack trace a second time.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything through; answer where no other code did."""
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:  # noqa: BLE001 - the client must get an answer to any of them
            _log.exception("request failed", method=scope.get("method"), path=scope.get("path"))
            if not started:
                answer = reason_response(500, "Unexpected error; the sidecar's log has the details")
                await answer(scope, receive, send)


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Give every error of the app the one shape; ``routes`` are all its routes."""
    app.state.routes = list(routes)
    for kind, answer in _ANSWERS.items():
        app.exception_handler(kind)(partial(_answer, answer))
    app.add_middleware(UnexpectedErrors)
