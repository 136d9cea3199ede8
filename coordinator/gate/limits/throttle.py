"""Why a connection is throttled: PIP-322's reasons, each counted on its own.

Limits hold back a producer; its connection goes on. The bounds of memory and of requests hold back the
connection: it is not read while at least one of them is exceeded. Each has hysteresis: it ends when half
of the bound is free, and the connection is read again when all have ended. Pulsar counts marks up and
down for this, and a lost mark blocks a connection for good; this module compares the quantities
themselves, so no mark can be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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


Owner = Callable[[], None]
"""A connection, as the buffer sees it: called when there is room again."""


class PublishBuffer:
    """Bytes of publishes that all connections together hold.

    Unfinished frames, by what has arrived of them, may always be half as much as the buffer: a connection
    that is not held back goes on while others fill it. They take nothing of the other half, however many
    there are. They hold nothing that could be released, so of those that do not fit the oldest goes on,
    and the others wait for it: one of them always gets on, or its connection ends because the client does
    not send the rest in time.

    Deliveries have an account of their own, of a quarter of the buffer: they take no room of publishes.

    Args:
        bytes_max: the most bytes of whole frames, less what has arrived of others when one is added;
            beyond it, connections that would have to hold more are not read. None is no bound but that
            of each connection. A frame always fits when nothing is held.
    """

    def __init__(self, bytes_max: int | None = None) -> None:
        self._bytes_max = bytes_max
        #: Connections that wait for room for a whole frame, and for an unfinished one.
        self._waiting: dict[Owner, None] = {}
        self._waiting_begun: dict[Owner, None] = {}
        #: Bytes of whole frames, and of what has arrived of the unfinished ones.
        self._whole = self._begun = 0
        #: What has arrived of each unfinished frame, the oldest first.
        self._unfinished: dict[Owner, int] = {}
        #: Bytes of deliveries that are held.
        self.delivery_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The bytes held."""
        return self._whole + self._begun

    def has_room(self, size: int) -> bool:
        """Return whether a whole frame may be held."""
        if self._bytes_max is None or not self._whole:
            return True
        return self._whole + size + min(self._begun, self._bytes_max // 2) <= self._bytes_max

    def has_room_for_delivery(self, size: int) -> bool:
        """Return whether this many more bytes of a delivery may be held; any fits if none is."""
        if self._bytes_max is None or not self.delivery_bytes:
            return True
        return 4 * (self.delivery_bytes + size) <= self._bytes_max

    def count_delivery(self, size: int) -> None:
        """Count this many more bytes of deliveries, or fewer if negative."""
        self.delivery_bytes += size

    def has_room_for_unfinished(self, owner: Owner, size: int) -> bool:
        """Return whether an unfinished frame may go on, of which this many bytes have arrived."""
        if self._bytes_max is None or self._is_oldest(owner):
            return True
        return 2 * (self._begun - self._unfinished.get(owner, 0) + size) <= self._bytes_max

    def is_relieved_for(self, owner: Owner) -> bool:
        """Return whether a connection that was stopped may be read again: half of its room is free.

        One that was told so waits no more: it is read, and stopped again if others took the room.
        """
        if owner in self._waiting:
            return self._has_relief(self._whole)
        return owner not in self._waiting_begun or self._may_go_on(owner)

    def count(self, size: int) -> None:
        """Count this many more bytes of whole frames, or fewer if negative."""
        self._whole += size
        if size < 0 and self._waiting and self._has_relief(self._whole):
            _tell(self._waiting, tuple(self._waiting))

    def count_unfinished(self, owner: Owner, size: int) -> None:
        """Count what has arrived of an unfinished frame; 0 ends its count."""
        self._begun += size - self._unfinished.get(owner, 0)
        if size:
            self._unfinished[owner] = size
        else:
            self._unfinished.pop(owner, None)
            self._tell_begun()

    def _tell_begun(self) -> None:
        """Tell the connections whose unfinished frames may go on: all of them, or the oldest at most."""
        if self._has_relief(2 * self._begun):
            _tell(self._waiting_begun, tuple(self._waiting_begun))
        elif (oldest := next(iter(self._unfinished))) in self._waiting_begun:
            _tell(self._waiting_begun, (oldest,))

    def _may_go_on(self, owner: Owner) -> bool:
        """Return whether an unfinished frame that did not fit may go on."""
        return self._is_oldest(owner) or self._has_relief(2 * self._begun)

    def _is_oldest(self, owner: Owner) -> bool:
        return next(iter(self._unfinished), owner) == owner

    def _has_relief(self, held: int) -> bool:
        return self._bytes_max is None or 2 * held <= self._bytes_max

    def when_relieved(self, owner: Owner, *, unfinished: bool) -> None:
        """Tell this connection once, when it may be read again; say what it has no room for."""
        self.forget(owner)
        (self._waiting_begun if unfinished else self._waiting)[owner] = None

    def forget(self, owner: Owner) -> None:
        """Drop a connection: it is closed."""
        self._waiting.pop(owner, None)
        self._waiting_begun.pop(owner, None)


def _tell(waiting: dict[Owner, None], owners: tuple[Owner, ...]) -> None:
    for owner in owners:
        del waiting[owner]
        owner()


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
