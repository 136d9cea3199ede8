"""The event log as it grows: ``/quota/v1/events``, a stream of server-sent events.

A stream begins with the notes that the log still has, after the one that ``Last-Event-ID`` names, and
goes on with every new one; a comment every `_BEAT_S` seconds shows that it lives. Bounds: `MAX_READERS`
streams, and of a role that is no super-user a share of them; more get 503. A reader that is
`MAX_WAITING` notes behind is told so by an event ``behind`` and its stream ends: it comes back with its
last id and gets what is still there.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from admin_api.backend import AdminBackend
from admin_api.errors import ApiError
from admin_api.openapi import PROBLEMS
from admin_api.routes.callers import AnyCaller
from admin_api.routes.common import backend_of
from admin_api.schemas.board import Mark
from coordinator.insight.model.bounded_events import LoggedEvent
from coordinator.insight.shell.sampler import Sampler
from coordinator.ports import share_of

router = APIRouter(prefix="/quota/v1", tags=["dashboard"], responses=PROBLEMS)

MAX_READERS = 64
MAX_WAITING = 256
_BEAT_S = 5.0
"""A page calls what it shows old when it has heard nothing for twice as long."""

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_RETRY_MS = 2_000


class _EventStream(StreamingResponse):
    """The stream of a reader, who counts from his request until it ends in whatever way."""

    def __init__(self, events: AsyncGenerator[str, None], readers: Counter[str], role: str) -> None:
        headers = {"Cache-Control": "no-store"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._readers = readers
        self._role = role
        readers[role] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._readers[self._role] -= 1
            self._readers += Counter()  # drops the roles without any


@router.get("/events", response_class=StreamingResponse)
async def stream_events(
    request: Request,
    caller: AnyCaller,
    last_event_id: Annotated[str, Header(description="go on after this note")] = "",
) -> StreamingResponse:
    """Stream joins, leaves, changes, throttling, degradations and settling, one event a note, as JSON."""
    readers: Counter[str] = request.app.state.event_readers
    role, share = caller.actor, share_of(MAX_READERS)
    if readers.total() >= MAX_READERS:
        raise ApiError(503, f"{MAX_READERS} readers follow the events already; try again later")
    if readers[role] >= share and not backend_of(request).access.is_super_user(role):
        raise ApiError(503, f"{share} readers of role {role} follow the events already; end one")
    if last_event_id and not _NUMBER.fullmatch(last_event_id):
        raise ApiError(400, "Last-Event-ID: must be the number of a note, as its id showed it")
    after = int(last_event_id or -1)
    return _EventStream(_stream(backend_of(request), after), readers, role)


async def _stream(backend: AdminBackend, after: int) -> AsyncGenerator[str, None]:
    async with aclosing(backend.coordinator_loop.stream(_told(backend.history, after))) as told:
        async for event in told:
            yield event


async def _told(history: Sampler, after: int) -> AsyncGenerator[str, None]:
    waiting: asyncio.Queue[LoggedEvent] = asyncio.Queue(MAX_WAITING)
    behind = asyncio.Event()

    def take(note: LoggedEvent) -> None:
        if waiting.full():
            behind.set()
        else:
            waiting.put_nowait(note)

    # In one turn: a note of the meantime would be told twice, or never.
    known, stop_watching = history.events.kept.notes(after), history.events.kept.watch(take)
    try:
        yield f"retry: {_RETRY_MS}\n\n"
        for note in known:
            yield _event(note, history.now_ns())
        while not behind.is_set():
            try:
                note = await asyncio.wait_for(waiting.get(), _BEAT_S)
            except TimeoutError:
                yield ": alive\n\n"
            else:
                yield _event(note, history.now_ns())
        yield "event: behind\ndata: {}\n\n"
    finally:
        stop_watching()


def _event(note: LoggedEvent, now_ns: int) -> str:
    mark = Mark.of(note, now_ns)
    data = json.dumps(mark.model_dump(by_alias=True))
    return f"id: {mark.number}\nevent: {mark.kind}\ndata: {data}\n\n"
