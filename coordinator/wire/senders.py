"""Verify the sender of each report from the bus, before any of it but its head is read.

The bus carries bytes of every process that may publish there. A payload is a report of a broker only if
ZooKeeper says so, in this order, the cheapest check first:

1. *Registration.* Its head names a member and exactly the incarnation that membership shows. A report
   that is ahead of membership waits for a moment (core/reports/early.py); any other is dropped.
2. *News.* Its sequence is new. An identical payload under a known number is a copy from another bus
   topic, and costs a hash; other bytes under a known number are foreign.
3. *Signature.* It is signed with the key that the member shows in its registration.
4. *Age.* Where `age_max_ms` is set, it was sent no longer ago (wire/freshness.py). Only reports that
   passed all checks before count in this, so no other sender makes a member's reports look old.

A payload that bears a member's name and fails is *foreign*: it is dropped, and counted for the member in
whose name it came. So is a payload in this sidecar's own name that it did not send: either a process
poses as this broker, or another sidecar was given its id.

The memory per sender is bounded: `SEEN_MAX` numbers with a hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.core.model import NANOS_PER_MILLI, Account, Member
from coordinator.core.reports.early import EarlyReports
from coordinator.wire.fields import BadReport
from coordinator.wire.freshness import Freshness
from coordinator.wire.reports import Head, head_of
from coordinator.wire.signature import Signed, is_signed_by, split_signature

SEEN_MAX = 64
"""Numbers of one sender that are remembered: a minute of rounds, or three seconds at the fastest rate."""


UNCONFIRMED = "a registration that ZooKeeper does not show"
NO_ROOM = "too many registrations that ZooKeeper does not show"


class Opened(NamedTuple):
    """A report whose sender is verified, not decoded yet.

    Args:
        broker: the sender.
        report: the signed bytes.
        size: bytes of the whole payload.
    """

    broker: str
    report: bytes
    size: int


class _Arrived(NamedTuple):
    """A payload with its head."""

    head: Head
    signed: Signed
    size: int


@dataclass(slots=True)
class _Stream:
    """The received reports of one incarnation."""

    incarnation: int
    newest: int = 0
    freshness: Freshness = field(default_factory=Freshness)
    #: The latest numbers: a hash of the payload, and how often it came.
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)

    def note(self, sequence: int, digest: int, times: int = 1) -> None:
        """Remember the payload of a number."""
        self.newest = max(self.newest, sequence)
        self.seen[sequence] = (digest, times)
        while len(self.seen) > SEEN_MAX:
            del self.seen[next(iter(self.seen))]


class Senders:
    """Knows the members, and the reports of each.

    Args:
        broker: this broker.
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        # These may be changed at any time.
        #: Number of bus topics: each report comes once by each.
        self.topics = 1
        #: A report that was sent longer ago is dropped; None drops none.
        self.age_max_ms: int | None = None
        self._members: dict[str, Member] = {}
        self._streams: dict[str, _Stream] = {}
        #: The reports that this sidecar has sent itself; None before the first one.
        self._own: _Stream | None = None
        self._early: EarlyReports[_Arrived] = EarlyReports()
        #: Foreign reports since the start, by the member in whose name they came.
        self.foreign: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    def sent(self, incarnation: int, sequence: int, report: bytes) -> None:
        """Record a report that this sidecar sends."""
        if self._own is None or self._own.incarnation != incarnation:
            self._own = _Stream(incarnation)
        self._own.note(sequence, hash(report), times=0)

    def set_members(self, members: Iterable[Member]) -> list[Opened | BadReport]:
        """Take over the live members; return the reports that waited for them, or why one was dropped."""
        self._members = {member.broker: member for member in members}
        self._streams = {
            broker: stream
            for broker, stream in self._streams.items()
            if (member := self._members.get(broker)) and member.incarnation == stream.incarnation
        }
        found: list[Opened | BadReport] = []
        for arrived in self._early.confirm(self._members):
            try:
                opened = self._judge(arrived, 0)
            except BadReport as error:
                found.append(error)
            else:
                found += [] if opened is None else [opened]
        return found

    def open(self, payload: bytes, now_ns: int) -> Opened | None:
        """Return the report in a payload; None if it is a copy, or has to wait for ZooKeeper.

        Raises:
            BadReport: no member that ZooKeeper knows sent it, or one did too long ago.
        """
        self.expire(now_ns)
        signed = split_signature(payload)
        head = head_of(signed.report)
        opened = self._judge(_Arrived(head, signed, len(payload)), now_ns)
        if opened is not None:
            self._check_age(head, now_ns // NANOS_PER_MILLI)
        return opened

    def expire(self, now_ns: int) -> None:
        """Drop reports that have waited too long for ZooKeeper."""
        self._give_up(self._early.expire(now_ns), UNCONFIRMED)

    def dropped(self) -> list[tuple[str, int]]:
        """Return reasons and numbers of silent drops since the last call; `open` raises for others."""
        found, self._dropped = list(self._dropped.items()), Counter()
        return found

    def _give_up(self, senders: Iterable[Account], reason: str) -> None:
        for _ in senders:
            self._dropped[reason] += 1

    def _judge(self, arrived: _Arrived, now_ns: int) -> Opened | None:
        head = arrived.head
        if head.broker == self._broker and not self._is_foreign(head):
            return self._judge_own(arrived)
        member = self._members.get(head.broker)
        if member is None or member.incarnation != head.incarnation:
            if not self._early.is_ahead(head.incarnation):
                is_member = member is not None
                raise BadReport("old incarnation" if is_member else "no member: not registered")
            sender = Account(head.broker, head.incarnation)
            self._give_up(self._early.keep(sender, arrived, arrived.size, now_ns), NO_ROOM)
            return None
        if head.broker == self._broker:
            self._refuse(head, "another sidecar is registered under this broker_id")
        return self._judge_member(member, arrived)

    def _judge_member(self, member: Member, arrived: _Arrived) -> Opened | None:
        head, signed = arrived.head, arrived.signed
        stream = self._streams.get(head.broker)
        if stream is None or stream.incarnation != head.incarnation:
            stream = _Stream(head.incarnation)
        elif head.sequence <= stream.newest:
            self._again(stream, arrived)
            return None
        self._check_signature(member, arrived)
        self._streams[head.broker] = stream
        stream.note(head.sequence, hash(signed.report))
        return Opened(head.broker, signed.report, arrived.size)

    def _judge_own(self, arrived: _Arrived) -> Opened | None:
        """Judge a payload in this sidecar's name, of its own incarnation or an earlier one."""
        own, head = self._own, arrived.head
        if own is None or head.incarnation < own.incarnation:
            raise BadReport("old incarnation")
        if head.sequence > own.newest:
            self._refuse(head, "a number that this sidecar has not come to")
        self._again(own, arrived)
        came_back = own.seen[head.sequence][1] == 1
        return Opened(head.broker, arrived.signed.report, arrived.size) if came_back else None

    def _is_foreign(self, head: Head) -> bool:
        return self._own is not None and head.incarnation > self._own.incarnation

    def _again(self, stream: _Stream, arrived: _Arrived) -> None:
        """Take a known number: a copy, unless this raises BadReport."""
        head, digest = arrived.head, hash(arrived.signed.report)
        if head.sequence not in stream.seen:
            raise BadReport("late")
        known, times = stream.seen[head.sequence]
        if known != digest:
            self._refuse(head, "two reports under one number")
        stream.seen[head.sequence] = (known, times + 1)
        if times >= self.topics:
            raise BadReport("sent again")

    def _check_age(self, head: Head, now_ms: int) -> None:
        stream = self._streams.get(head.broker)
        if self.age_max_ms is None or stream is None or not head.sent_ms:
            return
        age_ms = stream.freshness.age_ms(head.sent_ms, now_ms)
        if age_ms > self.age_max_ms:
            raise BadReport(f"too old: {head.broker} sent it {age_ms} ms before it came")

    def _check_signature(self, member: Member, arrived: _Arrived) -> None:
        if arrived.signed.signature is None:
            self._refuse(arrived.head, "no signature")
        if not is_signed_by(member.report_key, arrived.signed):
            self._refuse(arrived.head, "a signature that is not that broker's")

    def _refuse(self, head: Head, detail: str) -> None:
        """Raise BadReport, and count it for the claimed sender."""
        self.foreign[head.broker] += 1
        raise BadReport(f"foreign: in the name of {head.broker}, {detail}")
