"""An attacker in a process of its own: it does one thing to a gate until it is ended.

    python -m tests.attacks.attacker WAY PORT TOPIC STRENGTH

It says ``attacks`` once it has begun.
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from tests.attacks.raw import RawClient
from tests.gate import peer

Work = Callable[[int, str], None]
"""The work of one of the attacker's threads, again and again, given the port and the topic."""


def _pour(opens: Callable[[RawClient, str], bool], data: bytes) -> Work:
    """Open something, then send the same bytes for as long as the gate takes them."""

    def work(port: int, topic: str) -> None:
        with RawClient(port) as client:
            if opens(client, topic):
                while client.send(data):
                    pass

    return work


def _nothing(_client: RawClient, _topic: str) -> bool:
    return True


def _consumer(client: RawClient, topic: str) -> bool:
    # Durable subscriptions would stay, and slow down the topic for the attacks that follow.
    return client.open_consumer(topic, durable=False)


def _producer(client: RawClient, topic: str) -> bool:
    return client.open_producer(topic)


_EMPTY = b"\x1a\x00"
_COMPLETE = b"\x1a\x07" + peer.message((1, 300), (2, 70_000))
"""A message id of an ACK."""


def _acks(ids: int, consumer_id: int = 1, each: bytes = _EMPTY) -> bytes:
    """An ACK of message ids."""
    body = peer.message((1, consumer_id), (2, 0)) + each * ids
    return peer.frame(b"\x08\x0a" + peer.varint(10 << 3 | 2) + peer.varint(len(body)) + body)


def _send(properties: int, content: bytes = b"x", *more: peer.Field) -> bytes:
    """A SEND with many properties."""
    pairs = peer.message(*[(4, peer.message((1, ""), (2, "")))] * properties)
    metadata = peer.message((1, "p"), (2, 0), (3, 1), *more) + pairs
    head = peer.message((1, 6), (6, peer.message((1, 1), (2, 0))))
    return peer.frame(head, len(metadata).to_bytes(4, "big") + metadata + content)


def _connects(port: int, _topic: str) -> None:
    """A CONNECT of 130 kB with fields that no release has, without an end."""
    with RawClient(port, connect=b"") as client:
        client.send(peer.command(2, (1, "attack"), *[(900, 1)] * 43_000))
        client.ends(timeout_s=1.0)


def _claims(port: int, topic: str) -> None:
    """A kilobyte that claims three million messages, again as soon as it has passed."""
    claim = ((8, 3), (9, 18_000_000), (11, 3_000_000))
    with RawClient(port) as client:
        if client.open_producer(topic):
            client.send(_send(0, b"z" * 1300, *claim))
            client.ends(timeout_s=60)


def _heads(port: int, topic: str) -> None:
    """The head of 5 MiB and 32 bytes, then the end."""
    with RawClient(port) as client:
        if client.open_producer(topic):
            client.send(peer.send(1, 0, content=b"x" * (5 << 20), checksum=False)[:100])
            time.sleep(0.2)


def _unfinished(port: int, topic: str) -> None:
    """The first 17 kB of 5 MiB, and nothing more for a minute."""
    with RawClient(port) as client:
        if client.open_producer(topic):
            client.send(peer.send(1, 0, content=b"x" * (5 << 20), checksum=False)[: 17 << 10])
            client.ends(timeout_s=60)


def _many_producers(port: int, topic: str) -> None:
    """Three hundred producers, each with a message a second."""
    with RawClient(port) as client:
        for number in range(1, 301):
            client.open_producer(topic, number, number)
        for number in itertools.count():
            for producer_id in range(1, 301):
                if not client.send(peer.send(producer_id, number, checksum=False)):
                    return
            time.sleep(1.0)


WAYS: Final[dict[str, tuple[Work, int]]] = {
    "ACKs of 5 MB": (_pour(_nothing, _acks(2_500_000)), 4),
    "ACKs of 250 kB": (_pour(_consumer, _acks(125_000)), 4),
    "ACKs of 10,000 empty ids": (_pour(_consumer, _acks(10_000)), 4),
    "ACKs of 10,000 message ids": (_pour(_consumer, _acks(10_000, each=_COMPLETE)), 4),
    "ACKs of 2 kB": (_pour(_consumer, _acks(1_000) * 10), 4),
    "ACKs of 2 kB of no consumer": (_pour(_nothing, _acks(1_000, 9) * 10), 4),
    "FLOWs": (_pour(_consumer, peer.flow(1, 1) * 5_000), 4),
    "SENDs of many properties": (_pour(_producer, _send(1_300) * 5), 4),
    "CONNECTs of 130 kB": (_connects, 10),
    "claims of millions of messages": (_claims, 1),
    "heads of 5 MiB": (_heads, 1),
    "unfinished frames": (_unfinished, 111),
    "three hundred producers": (_many_producers, 1),
}
"""The work of an attacker, and the number of connections that do it at once."""


def _again(work: Work, port: int, topic: str) -> None:
    while True:
        try:
            work(port, topic)
        except OSError:
            time.sleep(random.uniform(0.05, 0.2))


def main(way: str, port: str, topic: str, strength: str) -> None:
    """Attack until the process is ended."""
    work, connections = WAYS[way]
    for _ in range(connections * int(strength)):
        threading.Thread(target=_again, args=(work, int(port), topic), daemon=True).start()
    time.sleep(0.5)
    print("attacks", flush=True)  # noqa: T201 - what the test waits for
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
