"""The topic of entries stays connected and heard, whatever comes; with a stand-in for its client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from coordinator.adapters.pulsar.native_messages import encode
from coordinator.adapters.pulsar.native_topic import NativeTopic
from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.table import Statement
from coordinator.runtime.supervision import TaskSupervisor

#: On a machine that may stand still.
PATIENCE_S = 60.0
_TURNS = 50


class Half:
    """A producer, or a reader."""

    def is_connected(self) -> bool:
        """It always is."""
        return True

    def close(self) -> None:
        """Nothing is open."""


class Client:
    """A client of Pulsar whose first producers fail with these errors."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.hear: Callable[[Any, Any], None] = lambda *_: None
        self.opened = threading.Event()

    def create_producer(self, *_: Any, **__: Any) -> Half:
        """Make one, or fail."""
        if self._errors:
            raise self._errors.pop()
        return Half()

    def create_reader(
        self, *_: Any, reader_listener: Callable[[Any, Any], None], **__: Any
    ) -> Half:
        """Make one."""
        self.hear = reader_listener
        self.opened.set()
        return Half()

    def close(self) -> None:
        """Nothing is open."""


class Message:
    """A message of a broker, whose names are bytes as they came."""

    def __init__(self, broker: str, producer: bytes, key: bytes = b"key") -> None:
        self._payload = encode(broker, {"g": Amounts(1)})
        self._producer = producer
        self._key = key

    def data(self) -> bytes:
        """Its payload."""
        return self._payload

    def properties(self) -> dict[str, str]:
        """As pulsar-client gives them: as text, or not at all."""
        return {self._key.decode(): ""}

    def producer_name(self) -> str:
        """Given likewise."""
        return self._producer.decode()

    def publish_timestamp(self) -> int:
        """Milliseconds of the epoch."""
        return 0


@asynccontextmanager
async def started(client: Client, supervisor: TaskSupervisor) -> AsyncIterator[NativeTopic]:
    """The topic, once it is listened to."""
    topic = NativeTopic("pulsar://b:6650", "a", supervisor=supervisor)
    topic._new_client = lambda: client  # type: ignore[assignment]
    await topic.start()
    try:
        assert await asyncio.to_thread(client.opened.wait, PATIENCE_S)
        yield topic
    finally:
        await topic.stop()


async def test_a_failure_of_any_kind_is_counted_and_the_topic_connected_again() -> None:
    """As where the machine has no thread left."""
    supervisor = TaskSupervisor()
    async with started(Client(RuntimeError("can't start new thread")), supervisor):
        assert supervisor.failures["native topic"].count == 1


async def test_names_that_are_no_text_cost_no_other_message() -> None:
    """Any producer can send them; an error in the client's thread would end the process."""
    client, heard = Client(), list[Statement]()
    async with started(client, TaskSupervisor()) as topic:
        topic.watch(heard.append)
        client.hear(None, Message("pulsar://x:1", b"\xff"))
        client.hear(None, Message("pulsar://x:1", b"p", b"\xff"))
        client.hear(None, Message("pulsar://b:1", b"p"))
        for _ in range(_TURNS):
            await asyncio.sleep(0)
    assert [(said.broker, said.producer) for said in heard] == [("pulsar://b:1", "p")]


async def test_of_more_messages_than_can_be_handled_the_newest_are() -> None:
    """Their number is bounded while they wait."""
    client, heard = Client(), list[Statement]()
    async with started(client, TaskSupervisor()) as topic:
        topic.watch(heard.append)
        for number in range(5_000):
            client.hear(None, Message(f"pulsar://b:{number}", b"p"))
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        assert topic.health().failed == 0
    assert [heard[0].broker, heard[-1].broker] == ["pulsar://b:904", "pulsar://b:4999"]
