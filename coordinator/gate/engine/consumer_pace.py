"""Commands of consumers: those that messages call for pass, and any further ones are paced.

A consumer answers messages with ACK, REDELIVER and FLOW. A broker looks for each message id that it is
told, also for one that it has never sent, on the thread that serves other clients, too; to write an id
takes a client next to nothing. So each message allows its consumer a few commands or ids, and a new
consumer has some for the messages that it got before it connected again. Beside these the connection has
a number a second. A client that sends more is not read until its allowance has grown again.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.limiting.token_bucket import TokenBucket
from coordinator.gate.engine.consumer import Consumer

PER_MESSAGE: Final = 4
"""Commands or ids that a message allows: parts of a batch are acknowledged one by one, and again after a
failure."""

ALLOWED_MAX: Final = 200_000
"""The most that messages allow a consumer: brokers send it no more than 50,000 of them ahead."""

ID_BYTES: Final = 32
"""Bytes of a short command that count as an id."""

FURTHER_PER_SECOND: Final = 1_000
FURTHER_AT_ONCE: Final = 2_000
"""Commands or ids that a connection has beside these; clients send a thousand ids in one command."""


class ConsumerPace:
    """A token bucket of what a connection's consumers send beside what their messages allow."""

    def __init__(self) -> None:
        self._further = TokenBucket(
            rate=FURTHER_PER_SECOND, capacity=FURTHER_AT_ONCE, initial=FURTHER_AT_ONCE, now_ns=0
        )

    def admits(self, consumer: Consumer, ids: int, now_ns: int) -> bool:
        """Take commands or ids, unless the allowance is used up; one command may exceed it."""
        further = max(0, ids - consumer.allowed)
        if further and not self.has_some(now_ns):
            return False
        self._further.consume(further, now_ns)
        consumer.allowed -= ids - further
        return True

    def has_some(self, now_ns: int) -> bool:
        """Return whether anything further may be sent."""
        return self._further.balance(now_ns) > 0
