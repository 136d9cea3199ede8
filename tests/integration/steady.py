"""Producers of many topics in a process of their own, each with a steady rate that can be changed.

``python -m tests.integration.steady --url URL --sizes '{"topic": bytes}' --queue N`` connects, says so in
a line, and then reads lines ``{"topic": messages per second}`` on its standard input until that ends. A
rate is a demand: a message for which a producer's queue has no room is left out, and so is what a process
that stood still should have sent, unless ``--arrears`` allows for more seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import pulsar

from deploy.clients import quiet_client

_SLICE_S = 0.01
_ARREARS_S = 0.05
"""The missed time that is made up for, where a test asks for no more."""
_QUEUE = 200
"""Messages of each topic that may wait for receipts: half a second of what topics are limited to."""


class Steady:
    """The load, as the test that offers it has it.

    Args:
        url: where to connect.
        sizes: topics, and the bytes of content of their messages.
        queue: messages of each topic that may wait for receipts.
        token: shown to the brokers; empty shows none.
        clients: connections to each broker, among which a topic's rate is divided; with 0 each topic has
            one of its own, where a broker that holds a topic back holds its connection back.
        arrears_s: missed time that is made up for: where a rate is less than a limit, it is exact on a
            busy machine, too.
    """

    def __init__(
        self,
        url: str,
        sizes: Mapping[str, int],
        queue: int = _QUEUE,
        token: str = "",
        clients: int = 1,
        arrears_s: float = _ARREARS_S,
    ) -> None:
        module = ("-m", "tests.integration.steady")
        options = ["--url", url, "--sizes", json.dumps(dict(sizes)), "--queue", str(queue)]
        options += ["--token", token, "--clients", str(clients), "--arrears", str(arrears_s)]
        self._process = subprocess.Popen(
            [sys.executable, *module, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "connected\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def offers(self, rates: Mapping[str, int]) -> None:
        """Offer these rates from now on, and those of other topics as before."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(dict(rates)) + "\n")
        self._process.stdin.flush()


class _Topic:
    """One producer, and what it is to send."""

    def __init__(self, client: Any, topic: str, size: int, queue: int, arrears_s: float) -> None:
        self._message = bytes(size)
        self._arrears_s = arrears_s
        self._producer = client.create_producer(
            topic,
            batching_enabled=False,
            block_if_queue_full=False,
            max_pending_messages=queue,
            send_timeout_millis=0,
        )
        self._rate = 0.0
        self._offered_until_s = 0.0

    def set_rate(self, rate: float) -> None:
        """Offer another rate from now on."""
        self._rate, self._offered_until_s = rate, time.monotonic()

    def send(self) -> None:
        """Send what is due."""
        now_s = time.monotonic()
        self._offered_until_s = max(self._offered_until_s, now_s - self._arrears_s)
        due = int((now_s - self._offered_until_s) * self._rate)
        for _ in range(due):
            self._producer.send_async(self._message, _ignore)
        if self._rate:
            self._offered_until_s += due / self._rate


def _run(options: argparse.Namespace) -> None:
    authentication = pulsar.AuthenticationToken(options.token) if options.token else None
    connect = partial(quiet_client, options.url, authentication=authentication)
    shared = [connect() for _ in range(options.clients)]
    topics = {
        topic: [
            _Topic(client, topic, size, options.queue, options.arrears)
            for client in shared or [connect()]
        ]
        for topic, size in options.sizes.items()
    }
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    all_of_them = tuple(each for producers in topics.values() for each in producers)
    threading.Thread(target=_send, args=(all_of_them,), daemon=True).start()
    for line in sys.stdin:
        for topic, rate in json.loads(line).items():
            for producer in topics[topic]:
                producer.set_rate(rate / len(topics[topic]))
    os._exit(0)  # the client would wait for messages that a limit holds


def _send(topics: tuple[_Topic, ...]) -> None:
    while True:
        for topic in topics:
            topic.send()
        time.sleep(_SLICE_S)


def _ignore(*_: object) -> None:
    """Take a receipt, or a refusal for want of room."""


def main() -> None:
    """Read the command line and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--sizes", required=True, type=json.loads)
    parser.add_argument("--queue", required=True, type=int)
    parser.add_argument("--token", default="")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--arrears", required=True, type=float)
    _run(parser.parse_args())


if __name__ == "__main__":
    main()
