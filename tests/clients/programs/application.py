"""The common part of all scenes of a Python application: its client, and messages that carry numbers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pulsar

SCENES: dict[str, Callable[[Application], str | None]] = {}
TIMEOUT_MS = 15_000


class Skipped(Exception):
    """This release cannot do that."""


def scene(function: Callable[[Application], str | None]) -> Callable[[Application], str | None]:
    """Take part in the run."""
    SCENES[function.__name__] = function
    return function


class Application:
    """A client, and what every scene does with it."""

    def __init__(self, url: str, namespace: str) -> None:
        self.url = url
        self.namespace = namespace
        self.client = self.connect()

    def connect(self, timeout_s: int = 20) -> pulsar.Client:
        """One more client."""
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)
        return pulsar.Client(self.url, logger=logger, operation_timeout_seconds=timeout_s)

    def topic(self, name: str, domain: str = "persistent") -> str:
        """A topic's full name."""
        return f"{domain}://{self.namespace}/{name}"

    def publish(self, topic: str, count: int, first: int = 0, **options: object) -> None:
        """Publish numbers, one after the other, and wait for all receipts."""
        producer = self.client.create_producer(topic, **options)
        send_all(producer, count, first)
        producer.close()

    def subscribe(
        self, topic: object, name: str, kind: str = "Exclusive", **options: object
    ) -> Any:
        """Subscribe from the start."""
        options.setdefault("initial_position", pulsar.InitialPosition.Earliest)
        return self.client.subscribe(
            topic, name, consumer_type=getattr(pulsar.ConsumerType, kind), **options
        )

    def ask(self, request: str, topic: str) -> None:
        """Have the caller do something with a topic, such as `unload` it, and wait until it is done."""
        print(f"{request} {topic}", flush=True)
        sys.stdin.readline()


def send_all(producer: pulsar.Producer, count: int, first: int = 0, **options: object) -> None:
    """Send numbers without waiting in between; raise unless all were acknowledged."""
    answered = threading.Semaphore(0)
    failed: list[object] = []

    def on_answer(result: object, _: object) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)
        answered.release()

    for number in range(first, first + count):
        producer.send_async(str(number).encode(), on_answer, **options)
    producer.flush()
    for _ in range(count):
        assert answered.acquire(timeout=30), "no receipt"
    assert not failed, failed


def receive(consumer: Any, count: int, *, ack: bool = True) -> list[bytes]:
    """Receive this many messages."""
    received = []
    for _ in range(count):
        message = consumer.receive(TIMEOUT_MS)
        received.append(message.data())
        if ack:
            consumer.acknowledge(message)
    return received


def numbers(count: int, first: int = 0) -> list[bytes]:
    """Return the contents that `send_all` sends."""
    return [str(number).encode() for number in range(first, first + count)]


def expect(condition: object, what: object) -> None:
    """Raise an AssertionError if the condition is false."""
    if not condition:
        raise AssertionError(what)


class Receipts:
    """Sends numbers from several producers, and keeps what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: set[bytes] = set()
        self.sent = 0
        self._news = threading.Condition()

    def send(self, producer: pulsar.Producer) -> None:
        """Send the next number."""
        body = str(self.sent).encode()
        self.sent += 1
        producer.send_async(body, lambda result, _: self._answered(result, body))

    def all_came(self) -> bool:
        """Wait until everything was acknowledged."""
        with self._news:
            return self._news.wait_for(lambda: len(self.acknowledged) == self.sent, timeout=30)

    def _answered(self, result: object, body: bytes) -> None:
        with self._news:
            if result == pulsar.Result.Ok:
                self.acknowledged.add(body)
            self._news.notify_all()
