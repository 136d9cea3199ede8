"""The process of Pulsar's client: its event loop, between the coordinator's socket and the library.

It has no supervisor and keeps nothing: whatever fails here ends it, and the coordinator starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from coordinator.adapters.pulsar.client import topic
from coordinator.adapters.pulsar.client.frames import (
    ClientSettings,
    NotUnderstoodError,
    Publish,
    TopicState,
    encode,
    receive,
)
from coordinator.adapters.pulsar.client.outbox import Outbox
from coordinator.adapters.pulsar.client.topic import TopicClient

STATES_EVERY_S: Final = 0.5
"""The coordinator hears the topics' states at least this often, and so that this process lives."""

_FLUSH_S: Final = 1.0
_POLL_S: Final = 0.02


async def serve(
    end: socket.socket, new_client: Callable[[ClientSettings], Any] = topic.new_client
) -> None:
    """Be the client of the process that holds the other end, until it closes that or shuts it down.

    What it has published by then still goes out, within `_FLUSH_S`.

    Args:
        end: a connected socket.
        new_client: makes the library's client.

    Raises:
        NotUnderstoodError: the first frame has no settings, or a later one is none.
    """
    reader, writer = await asyncio.open_unix_connection(sock=end)
    try:
        settings = await receive(reader)
        if isinstance(settings, ClientSettings):
            await _serve(settings, new_client(settings), reader, writer)
        elif settings is not None:
            raise NotUnderstoodError("the first frame has no settings")
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _serve(
    settings: ClientSettings,
    client: Any,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    outbox, executor = Outbox(), ThreadPoolExecutor(len(settings.topics), "pulsar-topic")
    topics = [
        TopicClient(client, name, outbox, executor, settings.compression)
        for name in settings.topics
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.run()) for each in topics]
        tasks.append(group.create_task(_write(outbox, topics, writer)))
        published = await _publish(reader, topics)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_S):
                while outbox.answered < published * len(topics):  # noqa: ASYNC110 - by other threads
                    await asyncio.sleep(_POLL_S)
        for task in tasks:
            task.cancel()
    writer.write(outbox.take())


async def _publish(reader: asyncio.StreamReader, topics: Sequence[TopicClient]) -> int:
    """Publish what comes, to its end; return the number of messages."""
    count = 0
    while (message := await receive(reader)) is not None:
        if not isinstance(message, Publish):
            raise NotUnderstoodError(f"{type(message).__name__} where a publish is expected")
        for each in topics:
            each.publish(message)
        count += 1
    return count


async def _write(
    outbox: Outbox, topics: Sequence[TopicClient], writer: asyncio.StreamWriter
) -> None:
    """Write what is here, and the states of the topics with it and from time to time."""
    with contextlib.suppress(ConnectionError):  # it is gone, which its end of the stream says
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STATES_EVERY_S):
                    await outbox.filled()
            for at, each in enumerate(topics):
                writer.write(encode(TopicState(at, each.is_connected(), each.reason)))
            writer.write(outbox.take())
            await writer.drain()
