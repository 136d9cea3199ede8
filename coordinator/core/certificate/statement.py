"""The live certificate: the most that the local limits of a group can add up to at this moment.

A sidecar knows its own limit. It knows the limits of the others from reports, which are old when they
arrive or get lost. A certificate is therefore the sum of the limits that no broker can have exceeded
since its last report. With C the group's limit, a broker counts with:

======================  ==========================================================================
``strict``              C in all: the books say so, whatever is lost or late (escrow/books.py)
``balanced``            its announcement: its limit, or its ceiling if it has one. A participant
                        holds at most the limit that every other participant knows
                        (transfer/policies.py), and a first raise above the arrival reserve needs the
                        answer of all members. The announcements that a participant has taken are
                        therefore never less than the limits in force, whatever was lost or delayed
                        since; at rest, with equal views, they are equal to them, which is C
``eager``               C for each other broker: it raises itself without announcement
======================  ==========================================================================

Where an announcement is not enough, a broker counts with C, or with the limit that it may take unasked:

* A participant need not ask this broker if this broker takes no part, or holds no more than its reserve
  yet. A broker that was there before this one and was not heard yet need not have asked either.
* A broker that was not heard for half of ``hold`` may have ceased to wait for answers
  (transfer/raise_protocol.py).
* A broker that reports that it does not hear all others moves to C/N in the end (degradation.py).

*Which brokers count.* Every member, and every broker that left the membership without a farewell, since
it may only be cut off: such a broker never raises itself (degradation.py), and counts until it is back
and heard. A broker that sent a farewell only finishes its work under way. *Which C*: while a changed
definition is under way, the highest that any broker may use, until every member's report has shown
(usage/agreement.py) that it uses the new one.

*Fractions.* Small local limits have fractions that no report tells (allocation/splitting.py). The sum has
those of this broker's view, rounded up, and a limit with a fraction counts as the next whole number; for
the time of a report a broker that sees other participants may have less than one a second more. A broker
that holds a fraction alone has announced nothing above its reserve: by its certificate the others need
not ask it, and each counts with C.

Assumptions: this sidecar is connected to ZooKeeper and has read its state; a report is late by less than
half of ``hold``; no broker lies. While this sidecar is cut off, is no member or has just stood still, it
certifies only what follows from the books. Two amounts are not in the sum but stated beside it. A process
that has just begun, and is not seen here as a member yet, holds at most its arrival reserve (under
``eager`` C), even where its former one is in the sum. Each bucket lets ``burst`` of its rate through at
once (core/handling.py), or one message if that is larger, so the traffic admitted in any T seconds is at
most T times the sum, plus the bursts. A broker that was cut off before this sidecar started is unknown;
one that was cut off before a limit was set does not know it, and is not in its sum. When members leave,
brokers that see it first hold reserves of fewer members: for the milliseconds until this sidecar sees it,
too, that may be a unit per second and broker more than is stated.

Every sidecar's certificate is true, so the lowest of all is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from coordinator.core.model import Dimension


class Basis(Enum):
    """The reason for the limit that a broker counts with."""

    OWN = "in force here"
    ANNOUNCED = "announced"
    RESERVE = "takes no part"
    UNTOLD = "need not ask this one"
    LATE = "was not heard for long"
    BUS_SILENT = "does not hear all others"
    UNBOUND = "raises itself without a word"
    DEPARTED = "left without a word"


SURE: Final = (Basis.OWN, Basis.ANNOUNCED, Basis.RESERVE)
"""Reasons that need no remark: the limit that such a broker counts with is the one that it has."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The most that one broker's local limit can be, per second."""

    broker: str
    most: int
    basis: Basis


@dataclass(frozen=True, slots=True)
class Certificate:
    """The most that the local limits of one group and dimension can add up to now.

    Args:
        group: the group.
        dimension: the dimension.
        limit: the group's limit for the cluster, per second.
        most: the sum, per second; None if it cannot be certified.
        newcomer: the additional limit of each broker that is not seen here yet, per second.
        burst: the amount that all buckets together may let through at once on top, messages or
            bytes.
        holders: the brokers in the sum; empty under ``strict``, where only the sum is known.
        obstacle: why the sum cannot be certified; empty if it can.
    """

    group: str
    dimension: Dimension
    limit: int
    most: int | None
    newcomer: int
    burst: int
    holders: tuple[Holder, ...] = ()
    obstacle: str = ""

    def sentence(self) -> str:
        """Return the certificate in words."""
        if self.most is None:
            return f"Nothing can be said of what all may hold together: {self.obstacle}."
        certain = f"All together hold at most {self.most:,}/s of {self.limit:,}/s now"
        unsure = [
            f"{holder.broker} {holder.basis.value}"
            for holder in self.holders
            if holder.basis not in SURE
        ]
        return f"{certain}: {', '.join(unsure)}." if unsure else f"{certain}."
