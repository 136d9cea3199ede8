"""The process of Pulsar's client: between the coordinator's socket and the library.

Threads carry it, since the library's calls block: the main one reads what to publish, one writes to the
coordinator, and one for each topic keeps it connected. An event loop would be 4 MB more beside every
broker. It has no supervisor and keeps nothing: whatever fails here, on any thread, ends it, and the
coordinator starts another.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Final

from coordinator.adapters.pulsar.client import topic
from coordinator.adapters.pulsar.client.frames import (
    LENGTHS_BYTES,
    ClientSettings,
    Frame,
    NotUnderstoodError,
    Publish,
    TopicState,
    decode,
    encode,
    sizes,
)
from coordinator.adapters.pulsar.client.outbox import Outbox
from coordinator.adapters.pulsar.client.topic import TopicClient

STATES_EVERY_S: Final = 0.5
"""The coordinator hears the topics' states at least this often, and so that this process lives."""

_FLUSH_S: Final = 1.0


def serve(
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
    with end, end.makefile("rb") as stream:
        settings = receive(stream)
        if isinstance(settings, ClientSettings):
            _serve(settings, new_client(settings), end, stream)
        elif settings is not None:
            raise NotUnderstoodError("the first frame has no settings")


def _serve(settings: ClientSettings, client: Any, end: socket.socket, stream: BinaryIO) -> None:
    outbox, stopped = Outbox(), threading.Event()
    topics = [
        TopicClient(client, name, outbox, stopped, settings.compression) for name in settings.topics
    ]
    failures: list[Exception] = []

    def carry(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised below
            failures.append(error)
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)  # so that no further frame is waited for

    def write() -> None:
        _write(outbox, topics, end)

    works = (write, *(each.run for each in topics))
    threads = [threading.Thread(target=carry, args=(work,), daemon=True) for work in works]
    try:
        for thread in threads:
            thread.start()
        published = _publish(stream, topics)
        if not failures:
            outbox.wait_for_answers(published * len(topics), _FLUSH_S)
    finally:
        stopped.set()
        outbox.finish()
    threads[0].join(_FLUSH_S)
    if failures:
        raise failures[0]


def _publish(stream: BinaryIO, topics: Sequence[TopicClient]) -> int:
    """Publish what comes, to its end; return the number of messages."""
    count = 0
    while (message := receive(stream)) is not None:
        if not isinstance(message, Publish):
            raise NotUnderstoodError(f"{type(message).__name__} where a publish is expected")
        for each in topics:
            each.publish(message)
        count += 1
    return count


def receive(stream: BinaryIO) -> Frame | None:
    """Wait for a frame; None is the end of the stream.

    Raises:
        NotUnderstoodError: the bytes are no frame, or it is too long.
    """
    try:
        lengths = stream.read(LENGTHS_BYTES)
        if len(lengths) < LENGTHS_BYTES:
            return None
        head_size, payload_size = sizes(lengths)
        head, payload = stream.read(head_size), stream.read(payload_size)
    except ConnectionError:
        return None
    cut_off = len(head) < head_size or len(payload) < payload_size
    return None if cut_off else decode(head, payload)


def _write(outbox: Outbox, topics: Sequence[TopicClient], end: socket.socket) -> None:
    """Write what is here, and the states of the topics with it and from time to time, to the end."""
    finishes = False
    with contextlib.suppress(ConnectionError):  # it is gone, which its end of the stream says
        while not finishes:
            finishes = outbox.wait(STATES_EVERY_S)
            states = [
                encode(TopicState(at, each.is_connected(), each.reason))
                for at, each in enumerate(topics)
            ]
            end.sendall(b"".join((*states, outbox.take())))
