"""A producer of hand-made frames that notes when each was sent, and when its receipt came."""

from __future__ import annotations

import time

from tests.attacks.raw import RawClient
from tests.gate import peer
from tests.integration.world import World, eventually

RECEIPT = 7


class Timed(RawClient):
    """A producer on a connection of its own that notes when each receipt comes."""

    def __init__(self, world: World, broker: str) -> None:
        self.receipts_s: list[float] = []
        self.sent_s: list[float] = []
        port = world.cluster.broker(broker).gate_port
        super().__init__(port)
        assert self.open_producer(world.topic_of[broker])

    def _take(self, frame: bytes) -> None:
        if peer.kind_of(frame) == RECEIPT:
            self.receipts_s.append(time.monotonic())
        super()._take(frame)

    def publishes(self, count: int, content: bytes = b"x" * 100) -> None:
        """Send this many messages, in one piece."""
        first = len(self.sent_s)
        numbers = range(first, first + count)
        self.sent_s += [time.monotonic()] * count
        frames = (peer.send(1, each, content=content, checksum=False) for each in numbers)
        assert self.send(b"".join(frames))

    def waits_for_all(self) -> None:
        """Wait until all that was sent has its receipt."""
        eventually(lambda: len(self.receipts_s) == len(self.sent_s), "all receipts")
