"""Reports that are ahead of ZooKeeper: kept until ZooKeeper confirms their sender, then believed.

The bus is faster than ZooKeeper's watch: a sidecar that has just registered reports before its
registration is seen here. Its report must not be lost, and must not count before ZooKeeper has shown the
registration; otherwise any sender could report under a number that no registration ever gets.

Registrations are numbered in one order for all brokers (core/model.py, `Member`). A report is *ahead*
only if its number is larger than every registration seen here; any other number without a member belongs
to an ended registration and never waits. A report that is ahead waits for `GRACE_NS`, far longer than a
watch takes. At most `EARLY_MAX` reports and `EARLY_BYTES_MAX` bytes wait, and `EARLY_OF_ONE_MAX` of one
registration. At a bound the oldest is dropped, which costs its sender a round: the next report replaces
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from coordinator.core.model import NANOS_PER_SECOND, Account, Member

GRACE_NS = 5 * NANOS_PER_SECOND
EARLY_MAX = 256
EARLY_OF_ONE_MAX = 4
EARLY_BYTES_MAX = 8 << 20

_T = TypeVar("_T")


class _Waiting(NamedTuple, Generic[_T]):
    sender: Account
    item: _T
    size: int
    since_ns: int


class EarlyReports(Generic[_T]):
    """Reports that wait for their registration to be seen, in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting[_T]] = deque()
        #: The largest registration ever seen.
        self._latest = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def is_ahead(self, incarnation: int) -> bool:
        """Return whether ZooKeeper may still show such a registration."""
        return incarnation > self._latest

    def keep(self, sender: Account, item: _T, size: int, now_ns: int) -> list[Account]:
        """Keep a report that is ahead; return the senders of the oldest ones dropped for it."""
        self._waiting.append(_Waiting(sender, item, size, now_ns))
        gone = []
        of_sender = [each for each in self._waiting if each.sender == sender]
        if len(of_sender) > EARLY_OF_ONE_MAX:
            self._waiting.remove(of_sender[0])
            gone.append(sender)
        while (
            len(self._waiting) > EARLY_MAX
            or sum(each.size for each in self._waiting) > EARLY_BYTES_MAX
        ):
            gone.append(self._waiting.popleft().sender)
        return gone

    def confirm(self, members: Mapping[str, Member]) -> list[_T]:
        """Take over the membership; return the waiting reports of its members, in order."""
        self._latest = max([self._latest, *(each.incarnation for each in members.values())])
        living = {Account(each.broker, each.incarnation) for each in members.values()}
        confirmed = [each.item for each in self._waiting if each.sender in living]
        self._waiting = deque(
            each
            for each in self._waiting
            if each.sender not in living and self.is_ahead(each.sender.incarnation)
        )
        return confirmed

    def expire(self, now_ns: int) -> list[Account]:
        """Drop the reports that have waited for longer than `GRACE_NS`; return their claimed senders."""
        expired = []
        while self._waiting and now_ns - self._waiting[0].since_ns > GRACE_NS:
            expired.append(self._waiting.popleft().sender)
        return expired
