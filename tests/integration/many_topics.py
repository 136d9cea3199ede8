"""A client that publishes to many topics at a steady rate each, until SIGKILL; a program of its own.

``python -m tests.integration.many_topics --url URL --rate N TOPIC...``. Messages for which a producer's
queue has no room are left out: the rate is a demand.
"""

from __future__ import annotations

import argparse
import sys
import time

from deploy.clients import quiet_client

_SLICES_PER_S = 10
#: For each topic: a second of what it may be limited to is under way, whatever its broker holds back.
_PENDING_MESSAGES = 100


def main() -> None:
    """Publish until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("topics", nargs="+")
    options = parser.parse_args()
    # A broker that holds a topic back holds back its connection, so each has one of its own.
    producers = [
        quiet_client(options.url).create_producer(
            topic,
            batching_enabled=False,
            block_if_queue_full=False,
            max_pending_messages=_PENDING_MESSAGES,
            send_timeout_millis=0,
        )
        for topic in options.topics
    ]
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    began_s = time.monotonic()
    sent = 0
    while True:
        time.sleep(1 / _SLICES_PER_S)
        due = int((time.monotonic() - began_s) * options.rate)
        for producer in producers:
            for _ in range(min(due - sent, options.rate)):
                producer.send_async(b"x" * 20, _ignore)
        sent = due


def _ignore(*_: object) -> None:
    """Take a receipt, or a refusal for want of room."""


if __name__ == "__main__":
    main()
