"""The load of one broker: a real client that publishes to one topic at a steady rate.

``python -m deploy.demo.load --url URL --topic TOPIC --rate N`` offers N messages a second of 100 bytes,
one message to a frame, or ``--batch`` of them, until SIGTERM. The rate is a demand, not a quantity of
work: messages that found the client's queue full are not sent later, or every raised limit would be met
by a flood without a client behind it.

On standard output stands one JSON object a line. Times are seconds of CLOCK_MONOTONIC, which all
processes of a machine share::

    {"event": "connected", "at_s": 1.5}                              the producer may send
    {"event": "receipts", "at_s": 2.5, "receipts": 998, "failed": 0, "latency_s": 1.998}
    {"event": "ended", "at_s": 9.5}

Receipts, failures and the mean time from a message to its receipt are those since the line before. What
passed is counted by the brokers; only how long it waited is told by these lines. The client reconnects
and sends again by itself when a broker dies.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import pulsar

from deploy.clients import client_of_program, stopped_by_signals

_MESSAGE = bytes(100)
_SLICE_S = 0.005
#: The missed time that is made up for: a few slices, for a machine that let us wait.
_ARREARS_S = 0.05
#: Messages that may wait for receipts: a second of the highest share that the story has for a broker.
#: With fewer, a client offers nothing while the bookie stands still, as a Java on a shared machine does
#: for a fifth of a second now and then; and the missing messages look like a limit that was not given.
_PENDING_MESSAGES = 2_000
#: The smallest bound that the client allows, batching or not.
_LEAST_BATCH = 2
#: How long a batch may take to fill.
_BATCH_MS = 100


@dataclass(slots=True)
class SendOutcomes:
    """Counts the outcomes of sends, which come in the order of the sends, on the client's own thread."""

    outcomes: Counter[bool] = field(default_factory=Counter)
    #: When each message without an outcome was handed to the client; bounded by the client's queue.
    sent_s: deque[float] = field(default_factory=deque)
    waited_s: float = 0.0

    def sends(self) -> None:
        """Note the moment of a send."""
        self.sent_s.append(time.monotonic())

    def __call__(self, result: Any, _message_id: Any) -> None:
        """Take the outcome of one send."""
        self.outcomes[result == pulsar.Result.Ok] += 1
        self.waited_s += time.monotonic() - self.sent_s.popleft()

    def take(self) -> tuple[int, int, float]:
        """Return receipts, failures and the mean time to an outcome since the last call."""
        counted, self.outcomes = self.outcomes, Counter()
        waited_s, self.waited_s = self.waited_s, 0.0
        return counted[True], counted[False], waited_s / max(1, counted.total())


def offer(producer: Any, rate: int, tally: SendOutcomes, stop: threading.Event) -> None:
    """Send `rate` messages a second in small slices until told to stop."""
    offered_until = time.monotonic()
    while not stop.wait(_SLICE_S):
        now = time.monotonic()
        offered_until = max(offered_until, now - _ARREARS_S)
        due = int((now - offered_until) * rate)
        for _ in range(due):
            tally.sends()
            producer.send_async(_MESSAGE, tally)
        offered_until += due / rate


def run(url: str, topic: str, rate: int, batch: int = 1) -> None:
    """Publish until SIGTERM or SIGINT, `batch` messages to a frame."""
    stop = stopped_by_signals()
    producer = client_of_program(url).create_producer(
        topic,
        send_timeout_millis=0,
        batching_enabled=batch > 1,
        batching_max_messages=max(_LEAST_BATCH, batch),
        batching_max_publish_delay_ms=_BATCH_MS,
        block_if_queue_full=True,
        max_pending_messages=_PENDING_MESSAGES,
    )
    tell("connected")
    tally = SendOutcomes()
    # A send waits for as long as the queue is full, and a waiting main thread would hear no signal.
    sender = threading.Thread(target=offer, args=(producer, rate, tally, stop), daemon=True)
    sender.start()
    while sender.is_alive() and not stop.wait(1.0):
        receipts, failed, latency_s = tally.take()
        tell("receipts", receipts=receipts, failed=failed, latency_s=round(latency_s, 6))
    if not stop.is_set():
        raise RuntimeError("sending stopped by itself")
    tell("ended")
    # The client's own ways to end wait, ten seconds and more, for messages that a limit holds. They
    # are of no use, and the broker sees the connection close at once.
    os._exit(0)


def tell(event: str, **numbers: float) -> None:
    """Tell the demo of an event: a line of JSON with the time."""
    print(json.dumps({"event": event, "at_s": time.monotonic(), **numbers}), flush=True)


def main() -> int:
    """Read the command line and publish."""
    parser = argparse.ArgumentParser(prog="python -m deploy.demo.load", description=__doc__)
    parser.add_argument("--url", required=True, help="pulsar://HOST:PORT[,HOST:PORT...]")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", required=True, type=int, help="messages per second")
    parser.add_argument("--batch", default=1, type=int, help="messages to a frame; default: 1")
    options = parser.parse_args()
    run(options.url, options.topic, options.rate, options.batch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
