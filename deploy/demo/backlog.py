"""The backlog of one topic: a real client that fills it, or one that drains it.

``python -m deploy.demo.backlog --url URL --topic TOPIC --fill N`` publishes N messages of 100 bytes, one
to a frame, for a subscription that is there before them; ``--drain N`` receives and acknowledges until it
has N of them, or until none has come for so long that the others are lost. Both stay until SIGTERM, as
the story's programs do. On standard output stands one JSON object a line; ``at_s`` is seconds of
CLOCK_MONOTONIC::

    {"event": "filled", "at_s": 1.5}
    {"event": "drained", "at_s": 9.5, "messages": 5000}      no message is counted twice
"""

from __future__ import annotations

import argparse
import sys
import threading
from typing import Any, Final

import pulsar

from deploy.clients import client_of_program, stopped_by_signals
from deploy.demo.load import tell

_SUBSCRIPTION: Final = "story"
_MESSAGE: Final = bytes(100)
_QUEUE: Final = 1_000
"""The client's own default."""

_RECEIVE_MS: Final = 1_000
_LOST_AFTER: Final = 20
"""Receives without a message in a row, a second each; a limit in force lets hundreds pass in one."""


def _subscribe(client: Any, topic: str) -> Any:
    return client.subscribe(
        topic,
        _SUBSCRIPTION,
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        receiver_queue_size=_QUEUE,
    )


def fill(client: Any, topic: str, messages: int) -> None:
    """Publish this number of messages, after the subscription.

    Raises:
        RuntimeError: one has no receipt, so that its absence later would be no loss.
    """
    _subscribe(client, topic).close()
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    refused: list[Any] = []

    def answered(result: Any, _message_id: Any) -> None:
        if result != pulsar.Result.Ok:
            refused.append(result)

    for _ in range(messages):
        producer.send_async(_MESSAGE, answered)
    producer.flush()
    producer.close()
    if refused:
        raise RuntimeError(f"{len(refused)} messages were refused: {refused[0]}")
    tell("filled")


def drain(client: Any, topic: str, messages: int, stop: threading.Event) -> None:
    """Receive this number of different messages, or all that come."""
    consumer = _subscribe(client, topic)
    received: set[bytes] = set()
    in_vain = 0
    while len(received) < messages and in_vain < _LOST_AFTER and not stop.is_set():
        try:
            message = consumer.receive(timeout_millis=_RECEIVE_MS)
        except pulsar.Timeout:
            in_vain += 1
            continue
        in_vain = 0
        received.add(message.message_id().serialize())
        consumer.acknowledge(message)
    tell("drained", messages=len(received))


def main() -> int:
    """Read the command line, do it, and wait for SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m deploy.demo.backlog", description=__doc__)
    parser.add_argument("--url", required=True, help="pulsar://HOST:PORT[,HOST:PORT...]")
    parser.add_argument("--topic", required=True)
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--fill", type=int, help="messages to publish")
    either.add_argument("--drain", type=int, help="messages to receive")
    options = parser.parse_args()
    stop = stopped_by_signals()
    client = client_of_program(options.url)
    if options.fill is not None:
        fill(client, options.topic, options.fill)
    else:
        drain(client, options.topic, options.drain, stop)
    stop.wait()
    client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
