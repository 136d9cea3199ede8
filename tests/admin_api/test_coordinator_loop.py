"""Only the coordinator's loop reads or changes its state; the rest of a request runs elsewhere."""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, TypeVar

import pytest
import structlog
from fastapi.routing import APIRoute, APIRouter

from admin_api import routes
from admin_api.coordinator_loop import CoordinatorLoop
from admin_api.routes.common import CoordinatorRoute, is_given_backend

T = TypeVar("T")

MODULES = [
    import_module(f"{routes.__name__}.{found.name}")
    for found in pkgutil.iter_modules(routes.__path__)
]

FREE = {
    "list_choices",  # names that are written into the program
    "get_page", "get_docs", "get_file",  # files
    "relay",  # the broker's answers
    "get_metrics",  # gathered on the coordinator's loop, written elsewhere
    "stream_events",  # made on the coordinator's loop, sent elsewhere
}  # fmt: skip
"""Handlers that do not run on the coordinator's loop."""


def all_routes() -> list[APIRoute]:
    """Of every router of the API."""
    routers = [
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, APIRouter)
    ]
    return [route for router in routers for route in router.routes if isinstance(route, APIRoute)]


def test_every_route_runs_at_home_but_for_those_that_are_named_here() -> None:
    """A handler without the backend is in the list."""
    elsewhere = {
        route.endpoint.__name__ for route in all_routes() if not is_given_backend(route.endpoint)
    }
    given = [route for route in all_routes() if is_given_backend(route.endpoint)]

    assert elsewhere == FREE
    assert len(given) > 50
    assert {type(route) for route in given} == {CoordinatorRoute}


def test_who_runs_at_home_reads_no_body() -> None:
    """It does not arrive there."""
    for route in all_routes():
        if is_given_backend(route.endpoint):
            source = inspect.getsource(inspect.unwrap(route.endpoint))
            assert ".stream()" not in source, route.path
            assert "read_object" not in source, route.path


@asynccontextmanager
async def another_loop() -> AsyncIterator[Callable[[Coroutine[Any, Any, T]], asyncio.Future[T]]]:
    """Runs coroutines on a loop in another thread; the test's own is the coordinator's."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
    finally:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_end_tasks(), loop))
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def here() -> str:
    """The name of the thread, and what is bound to the log."""
    return f"{threading.current_thread().name} {structlog.contextvars.get_contextvars()}"


async def test_work_runs_at_home_and_its_result_comes_back() -> None:
    """The work sees the log's context of its caller."""
    loop = CoordinatorLoop(asyncio.get_running_loop())

    async def ask() -> str:
        with structlog.contextvars.bound_contextvars(request_id="r1"):
            return await loop.run(here())

    async with another_loop() as elsewhere:
        found = await elsewhere(ask())

    assert found == f"{threading.current_thread().name} {{'request_id': 'r1'}}"


async def test_what_fails_at_home_fails_for_who_asked() -> None:
    """The exception is the same object."""
    loop = CoordinatorLoop(asyncio.get_running_loop())
    trouble = KeyError("orders")

    async def fail() -> None:
        raise trouble

    async with another_loop() as elsewhere:
        with pytest.raises(KeyError) as caught:
            await elsewhere(loop.run(fail()))

    assert caught.value is trouble


async def test_who_is_gone_cancels_what_runs_for_him() -> None:
    """The cancelled work cleans up on the coordinator's loop."""
    loop = CoordinatorLoop(asyncio.get_running_loop())
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait_for_ever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with another_loop() as elsewhere:
        asking = elsewhere(loop.run(wait_for_ever()))
        await begun.wait()
        asking.cancel()
        async with asyncio.timeout(60):
            await ended.wait()


async def test_a_stream_is_made_at_home_and_closed_there_when_its_reader_goes() -> None:
    """The reader may leave between two pieces or while he waits for one."""
    loop = CoordinatorLoop(asyncio.get_running_loop())
    closed: asyncio.Queue[str] = asyncio.Queue()

    async def pieces() -> AsyncGenerator[str, None]:
        try:
            yield await here()
            yield await here()
            await asyncio.Event().wait()
        finally:
            closed.put_nowait(await here())

    async def read(count: int, wait: asyncio.Event | None = None) -> list[str]:
        stream = loop.stream(pieces())
        found = [await anext(stream) for _ in range(count)]
        if wait is None:
            await stream.aclose()
        else:
            home_loop.call_soon_threadsafe(wait.set)
            await anext(stream)
        return found

    home_loop = asyncio.get_running_loop()
    at_home = await here()
    async with another_loop() as elsewhere, asyncio.timeout(60):
        assert await elsewhere(read(2)) == [at_home, at_home]
        assert await closed.get() == at_home
        waits = asyncio.Event()
        reading = elsewhere(read(2, waits))
        await waits.wait()
        reading.cancel()
        assert await closed.get() == at_home


async def test_a_stream_ends_when_its_generator_does() -> None:
    """This holds on either loop."""

    async def pieces() -> AsyncGenerator[int, None]:
        yield 1
        yield 2

    async def read(loop: CoordinatorLoop) -> list[int]:
        return [piece async for piece in loop.stream(pieces())]

    async with another_loop() as elsewhere:
        assert await elsewhere(read(CoordinatorLoop(asyncio.get_running_loop()))) == [1, 2]
    assert await read(CoordinatorLoop()) == [1, 2]
