"""Scenes of a Python application that closes while a gate holds messages of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pulsar

from tests.clients.programs.application import Application, expect, numbers, receive, scene

_SENT = 200

_PATIENCE_S = 120
"""Longer than a scene takes, unless a close waits for all that is held."""


@scene
def closing_held(app: Application) -> None:
    close_while_held(app, lambda _, producer: producer.close())


@scene
def closing_at_once(app: Application) -> None:
    close_while_held(app, lambda _, producer: producer.close(), held=False)


@scene
def client_closed_held(app: Application) -> None:
    close_while_held(app, lambda client, _: client.close())


def close_while_held(
    app: Application,
    close: Callable[[pulsar.Client, pulsar.Producer], None],
    *,
    held: bool = True,
) -> None:
    """Close a producer of a topic that the caller has limited to one message per second.

    `held` asks the caller to wait until the gate holds what has not passed, `lift` to lift the limit.
    """
    topic = app.topic("held")
    client = app.connect(_PATIENCE_S)
    producer = named(client, topic)
    answers: dict[int, pulsar.Result] = {}
    answered = threading.Semaphore(0)

    def answer(number: int, result: pulsar.Result) -> None:
        answers[number] = result
        answered.release()

    for number in range(_SENT):
        producer.send_async(str(number).encode(), lambda result, _, n=number: answer(n, result))
    if held:
        app.ask("held", topic)
    began = time.monotonic()
    close(client, producer)
    expect(time.monotonic() - began < _PATIENCE_S / 2, "the close waits for what is held")
    for _ in range(_SENT):
        expect(answered.acquire(timeout=30), "no answer")
    acknowledged = list(answers.values()).count(pulsar.Result.Ok)
    failed = [pulsar.Result.AlreadyClosed] * (_SENT - acknowledged)
    results = [answers[number] for number in range(_SENT)]
    expect(results == [pulsar.Result.Ok] * acknowledged + failed, results)
    following = app.connect(_PATIENCE_S)
    again = named(following, topic)
    app.ask("lift", topic)
    again.send(b"last")
    following.close()
    consumer = app.subscribe(topic, "s")
    expect(receive(consumer, acknowledged + 1) == [*numbers(acknowledged), b"last"], "published")
    consumer.close()


def named(client: pulsar.Client, topic: str) -> pulsar.Producer:
    """Open the producer `orders`."""
    return client.create_producer(
        topic,
        producer_name="orders",
        batching_enabled=False,
        send_timeout_millis=1000 * _PATIENCE_S,
    )


HELD = ("closing_held", "closing_at_once", "client_closed_held")
"""The scenes, which need a caller that limits the topic."""
