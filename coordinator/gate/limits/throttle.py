"""Why a connection is throttled: PIP-322's reasons, each counted on its own.

Limits hold back a producer; its connection goes on. The bounds of memory and of requests hold back the
connection: it is not read while at least one of them is exceeded. Each has hysteresis: it ends when half
of the bound is free, and the connection is read again when all have ended. Pulsar counts marks up and
down for this, and a lost mark blocks a connection for good; the gate compares the quantities themselves,
so no mark can be lost. What connections share of the publish buffer: publish_buffer.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Final


class ThrottleReason(Enum):
    """The limit or bound that holds back a producer, or its whole connection."""

    BROKER_LIMIT = "broker limit"
    TOPIC_LIMIT = "topic limit"
    RESOURCE_GROUP = "resource group"
    DELAYED_MESSAGES = "delayed messages"
    BACKLOG_QUOTA = "backlog quota"
    PARTITION_LIMIT = "partition limit"
    PENDING_REQUESTS = "pending publish requests"
    PUBLISH_BUFFER = "publish buffer"
    HELD_BYTES = "held bytes"
    CONSUMER_COMMANDS = "consumer commands"


HELD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Default bound of one connection's held bytes."""


PARTICIPANTS_MAX: Final = 20_000
"""Bound of one connection's producers and consumers; any more are answered with TooManyRequests."""


@dataclass(frozen=True, slots=True)
class ThrottleBounds:
    """The bounds of each connection.

    Args:
        held_bytes_max: bytes of held messages; a frame always fits when nothing else is held.
        pending_requests_max: publishes that the broker has and has not answered; None is the broker's
            own bound (maxPendingPublishRequestsPerConnection) alone.
        participants_max: producers and consumers, those asked for included; any more are refused.
    """

    held_bytes_max: int = HELD_BYTES_MAX
    pending_requests_max: int | None = None
    participants_max: int = PARTICIPANTS_MAX


DEFAULT_BOUNDS: Final = ThrottleBounds()


class Throttle:
    """The throttle reasons of one connection.

    Args:
        totals: counts of all connections, to which this one adds.
    """

    def __init__(self, totals: Counter[ThrottleReason]) -> None:
        self._totals = totals
        #: How often each reason began to hold something back.
        self.counts: Counter[ThrottleReason] = Counter()
        #: The reasons for which the connection is not read.
        self.pausing: set[ThrottleReason] = set()

    def count(self, reason: ThrottleReason) -> None:
        """Count one more reason that holds back a producer, or the connection."""
        self.counts[reason] += 1
        self._totals[reason] += 1
