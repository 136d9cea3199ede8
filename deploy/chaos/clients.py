"""The clients of a run: programs of their own, so that nothing of the bench's is lost with theirs.

``python -m deploy.chaos.clients publish`` keeps every topic supplied with more than it may take, and
``... consume`` reads along and acknowledges, both through the gates, until SIGTERM. What they write is
one line a message, in the order in which it became known, times in seconds of CLOCK_MONOTONIC::

    TOPIC NUMBER SENT_S RECEIPT_S      a publisher's; "-" for a receipt that never came, or the name of
                                       the error that came in its place
    TOPIC NUMBER MESSAGE_ID AT_S       a consumer's

TOPIC is the topic's place on the command line. At SIGTERM a publisher waits for the receipts that are
still open, and a consumer for what is still on its way.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import pulsar

from deploy.clients import client_of_program, stopped_by_signals

_SLICE_S = 0.02
PENDING_MESSAGES = 300
"""That a topic's producer sends ahead of its receipts: more than it may in a second, so that the limit is
felt at any time."""
#: Messages of one key must stay in order, too.
_KEYS = 8
#: After SIGTERM; longer than any recovery.
_RECEIPTS_WITHIN_S = 60.0
_QUIET_S = 5.0
_WRITE_S = 0.5
SUBSCRIPTION = "reads-along"


class Diary:
    """Lines from many threads, written in one."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        # One queue for good: a line noted in a list that is being replaced by another would be lost.
        self._lines: deque[str] = deque()

    def note(self, *words: object) -> None:
        """Remember a line."""
        self._lines.append(" ".join(map(str, words)))

    def write(self) -> None:
        """Write what was noted."""
        for _ in range(len(self._lines)):
            self._file.write(f"{self._lines.popleft()}\n")
        self._file.flush()


class Publisher:
    """One producer of one topic, which numbers its messages."""

    def __init__(self, place: int, producer: Any, rate: int, diary: Diary) -> None:
        self._place = place
        self._producer = producer
        self._rate = rate
        self._diary = diary
        self._open: dict[int, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Offer `rate` messages a second; while the queue is full, wait."""
        number = 0
        began_s = time.monotonic()
        while not stop.wait(_SLICE_S):
            due = int((time.monotonic() - began_s) * self._rate)
            # What could not be sent is not made up for.
            for _ in range(min(due - number, self._rate)):
                if stop.is_set():
                    break
                self._send(number)
                number += 1
            if due > number:
                began_s = time.monotonic() - number / self._rate

    @property
    def open(self) -> int:
        """Messages whose receipt has not come."""
        return len(self._open)

    def give_up(self) -> None:
        """Write down what has no receipt."""
        for number, sent_s in sorted(self._open.items()):
            self._diary.note(self._place, number, sent_s, "-")

    def _send(self, number: int) -> None:
        self._open[number] = time.monotonic()
        self._producer.send_async(
            str(number).encode(), self._outcome(number), partition_key=str(number % _KEYS)
        )

    def _outcome(self, number: int) -> Callable[[Any, Any], None]:
        def done(result: Any, _: Any) -> None:
            receipt = time.monotonic() if result == pulsar.Result.Ok else result.name
            self._diary.note(self._place, number, self._open.pop(number), receipt)

        return done


def publish(client: Any, topics: Sequence[str], rate: int, diary: Diary) -> None:
    """Publish to all topics until SIGTERM, and wait for the receipts."""
    stop = stopped_by_signals()
    publishers = [
        Publisher(
            place,
            client.create_producer(
                topic,
                send_timeout_millis=0,
                batching_enabled=False,
                block_if_queue_full=True,
                max_pending_messages=PENDING_MESSAGES,
            ),
            rate,
            diary,
        )
        for place, topic in enumerate(topics)
    ]
    threads = [threading.Thread(target=p.run, args=(stop,), daemon=True) for p in publishers]
    for thread in threads:
        thread.start()
    while not stop.wait(_WRITE_S):
        diary.write()
    deadline_s = time.monotonic() + _RECEIPTS_WITHIN_S
    while time.monotonic() < deadline_s and (
        any(thread.is_alive() for thread in threads) or any(p.open for p in publishers)
    ):
        time.sleep(_SLICE_S)
    for publisher in publishers:
        publisher.give_up()


def consume(client: Any, topics: Sequence[str], diary: Diary) -> None:
    """Read all topics along until SIGTERM, and then until nothing more comes."""
    stop = stopped_by_signals()
    threads = [
        threading.Thread(target=_read_along, args=(client, place, topic, diary, stop), daemon=True)
        for place, topic in enumerate(topics)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        diary.write()
        time.sleep(_WRITE_S)


def _read_along(client: Any, place: int, topic: str, diary: Diary, stop: threading.Event) -> None:
    consumer = client.subscribe(
        topic, SUBSCRIPTION, initial_position=pulsar.InitialPosition.Earliest
    )
    last_s = time.monotonic()
    while not stop.is_set() or time.monotonic() < last_s + _QUIET_S:
        try:
            message = consumer.receive(timeout_millis=500)
        except pulsar.Timeout:
            continue
        last_s = time.monotonic()
        diary.note(place, int(message.data()), name_of(message.message_id()), last_s)
        consumer.acknowledge(message)


def name_of(message_id: Any) -> str:
    """Where a message is stored, in one word."""
    return f"{message_id.ledger_id()}:{message_id.entry_id()}"


def main() -> int:
    """Read the command line and publish or consume."""
    parser = argparse.ArgumentParser(prog="python -m deploy.chaos.clients", description=__doc__)
    parser.add_argument("part", choices=["publish", "consume"])
    parser.add_argument("--url", required=True, help="pulsar://HOST:PORT[,HOST:PORT...]")
    parser.add_argument("--topic", required=True, action="append")
    parser.add_argument("--rate", type=int, default=1, help="messages a second for each topic")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    client = client_of_program(options.url)
    with options.out.open("w") as file:
        diary = Diary(file)
        if options.part == "publish":
            publish(client, options.topic, options.rate, diary)
        else:
            consume(client, options.topic, diary)
        diary.write()
    # The client's own end waits for messages that the checker does not need.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
