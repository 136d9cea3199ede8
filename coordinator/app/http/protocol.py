"""One HTTP connection: uvicorn's protocol on httptools, with the bounds that both leave open.

* A head is at most `MAX_HEAD_BYTES`, as are the sizes of a body's chunks and the trailer after the last
  of them; all bytes count that were received since the parser last took a part.
* At most `MAX_PIPELINED` requests wait for the one before them.
* A request names a path, not a URL, since the host of a URL would be ambiguous.
* An overdue request (`deadlines`) is answered and its connection closed, or the connection is cut where
  an answer is under way; a closed connection whose peer takes nothing is cut off.

Every refusal has the API's one shape, ``{"reason": ...}``, and is reported to the watcher, which counts
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from coordinator.app.http.deadlines import CallerDeadlines, Overdue
from coordinator.gate.server.sockets import taken

MAX_HEAD_BYTES: Final = 64 * 1024
"""The most bytes of a request's first line and headers."""

MAX_PIPELINED: Final = 16

_TOO_LARGE: Final = f"The head is larger than {MAX_HEAD_BYTES} bytes"
_LINE_BYTES: Final = len(": \r\n")

_REASONS: Final = {
    Overdue.HEAD: "The head of the request did not arrive in time",
    Overdue.BODY: "The body did not arrive in time",
}


class BadRequest(ValueError):
    """A request is refused while it is read; the text says why."""


@dataclass(frozen=True, slots=True)
class ConnectionWatcher:
    """The server's side of a connection, which is told of its changes.

    Args:
        request_s: for a head, and for a body.
        asks: the connection has a request under way.
        waits: it has none.
        left: it is closed.
        refused: a request was refused: the reason in a word or two, the host, and the text of the answer.
    """

    request_s: float
    asks: Callable[[], None] = lambda: None
    waits: Callable[[], None] = lambda: None
    left: Callable[[], None] = lambda: None
    refused: Callable[[str, str, str], None] = lambda *_: None


class ApiProtocol(HttpToolsProtocol):
    """A connection; see the module's head."""

    def __init__(self, *settings: Any, watcher: ConnectionWatcher, **more: Any) -> None:
        super().__init__(*settings, **more)
        self._watcher = watcher
        self._deadlines = CallerDeadlines(watcher.request_s, self.loop.time())
        self._pending_bytes = 0
        self._in_body = False
        self._bad = ""

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection."""
        super().connection_lost(exc)
        self._watcher.left()

    def data_received(self, data: bytes) -> None:
        """Read on; refuse a head or body that has become too long, and stop reading."""
        self._pending_bytes += len(data)
        if not self._in_body:
            self._deadlines.received(self.loop.time())
        super().data_received(data)
        if self._pending_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.refuse(400, _TOO_LARGE, "malformed")

    def on_headers_complete(self) -> None:
        """Check a whole head."""
        self._pending_bytes = 0
        self._deadlines.head_taken(self.loop.time())
        lines = sum(len(name) + len(value) + _LINE_BYTES for name, value in self.headers)
        if len(self.url) + lines > MAX_HEAD_BYTES:  # it may have come in a single read
            self._bad = _TOO_LARGE
        elif not self.url.startswith(b"/"):
            self._bad = "The request must name a path, not a URL"
        elif len(self.pipeline) >= MAX_PIPELINED:
            self._bad = f"More than {MAX_PIPELINED} requests were sent ahead of their answers"
        if self._bad:
            raise BadRequest(self._bad)
        self._in_body = True
        super().on_headers_complete()
        self._watcher.asks()

    def on_body(self, body: bytes) -> None:
        """Note a part of a body."""
        self._pending_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        self._pending_bytes = 0
        self._in_body = False
        self._deadlines.body_ended()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note a sent answer."""
        super().on_response_complete()
        if self.cycle.response_complete:  # the last of the pipelined requests
            self._deadlines.answered(self.loop.time())
            self._watcher.waits()

    def send_400_response(self, msg: str) -> None:
        """Refuse data in which the parser finds no request."""
        self.refuse(400, self._bad or msg, "malformed")

    def look(self) -> None:
        """End an overdue request; to be called every second or so."""
        acknowledged, unsent = taken(self.transport)
        overdue = self._deadlines.overdue(
            self.loop.time(),
            answers=self._answers,
            unsent=unsent,
            acknowledged=acknowledged,
        )
        if overdue is None:
            return
        silent = self._last is None and not self._pending_bytes
        if overdue in _REASONS and not silent and not self.transport.is_closing():
            self.refuse(408, _REASONS[overdue], overdue.value)
        else:
            self._tell(overdue.value, "")
            self.transport.abort()

    def refuse(self, status: int, reason: str, word: str) -> None:
        """Answer and close; where an answer is under way, cut the connection."""
        self._tell(word, reason)
        last = self._last
        if last is not None and not last.response_complete:
            if last.response_started or self.pipeline or not self._in_body:
                self.transport.abort()
                return
            # An answer still being computed for this request is not sent.
            last.disconnected = True
            last.message_event.set()
        self.transport.write(refusal(status, reason, self.server_state.default_headers))
        self.transport.close()

    @property
    def _last(self) -> RequestResponseCycle | None:
        """Return the last request, if there was one; uvicorn's own type omits that."""
        return self.cycle

    @property
    def _answers(self) -> bool:
        return self._last is not None and not self._last.response_complete

    def _tell(self, word: str, reason: str) -> None:
        self._watcher.refused(word, self.client[0] if self.client else "", reason)


def refusal(status: int, reason: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return an answer apart from any request, after which the connection is closed."""
    body = json.dumps({"reason": reason}).encode()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(),
        *(name + b": " + value for name, value in headers),
        b"content-type: application/json",
        f"content-length: {len(body)}".encode(),
        b"connection: close",
    ]
    return b"\r\n".join([*lines, b"", body])
