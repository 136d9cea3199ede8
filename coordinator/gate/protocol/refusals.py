"""Requests and answers that the gate refuses on a connection that goes on; each reason has a count.

Frames that cannot be understood end a connection (frames.py); these are understood, and may not pass. A
client that expects an answer gets the broker's own error for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum


class RefusalReason(Enum):
    """Why a request, a publish or a broker's answer is refused."""

    TOPIC_NAME = "topic name that Pulsar does not accept"
    RESERVED_TOPIC = "publish to a topic of the coordinators or the brokers"
    NAME_TOO_LONG = "name too long"
    PRODUCER_IN_USE = "producer id in use"
    CONSUMER_IN_USE = "consumer id in use"
    PARTICIPANTS = "too many producers and consumers"
    BACKLOG_QUOTA = "backlog quota exceeded"
    RATE_LIMIT = "limit of a resource group exceeded"
    SUBSCRIBE_RATE = "subscribe rate exceeded"
    CLOSED_PRODUCER = "publish to a closed producer"
    CLOSED_CONSUMER = "command of a closed consumer"
    UNKNOWN_CONSUMER = "command of an unknown consumer"
    UNASKED_MESSAGE = "message to an unknown consumer"
    HELD_DELIVERIES = "more for a consumer than may be held"
    ADDRESS = "address that leads to no gate"


class RequestRefused(Exception):
    """A request may not pass; the message gives the client the reason.

    Args:
        request_id: the refused request.
        error: the ServerError that answers it.
        text: the request and the remedy.
        reason: the reason, for counting.
    """

    def __init__(self, request_id: int, error: int, text: str, reason: RefusalReason) -> None:
        super().__init__(text)
        self.request_id = request_id
        self.error = error
        self.reason = reason


EXPECTED = frozenset(
    {
        RefusalReason.BACKLOG_QUOTA,
        RefusalReason.RATE_LIMIT,
        RefusalReason.SUBSCRIBE_RATE,
        RefusalReason.CLOSED_PRODUCER,
        RefusalReason.CLOSED_CONSUMER,
        RefusalReason.UNASKED_MESSAGE,
    }
)
"""Refusals of correct clients: limits, and frames that cross with a broker's close."""


class Refusals:
    """The refusals of one connection.

    Args:
        totals: counts of all connections, to which this one adds.
        first: called with the first refusal of each reason that no correct client and no correct
            configuration causes: reason and request.
    """

    __slots__ = ("_first", "_seen", "_totals")

    def __init__(
        self, totals: Counter[RefusalReason], first: Callable[[RefusalReason, str], None]
    ) -> None:
        self._totals = totals
        self._first = first
        self._seen: set[RefusalReason] = set()

    def count(self, reason: RefusalReason, detail: str) -> None:
        """Count a refusal."""
        self._totals[reason] += 1
        if reason not in self._seen and reason not in EXPECTED:
            self._seen.add(reason)
            self._first(reason, detail)
