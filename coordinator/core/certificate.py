"""The live certificate: the most that the local limits of a group can add up to at this moment.

A sidecar knows its own limit. What the others hold it knows from reports, which are old when they
arrive, and some never do. So a certificate is the sum of what each broker cannot have exceeded since its
last word. With C the group's limit:

======================  ==========================================================================
``strict``              C: the books say so, whatever is lost or late (escrow.py)
``balanced``            what each broker announced: its limit, or its ceiling if it has one. Whoever
                        takes part holds at most what every other one that takes part knows
                        (policies.py), and a first raise above the arrival reserve needs everybody's
                        answer. So the words that a participant has taken are never less than what is
                        in force, whatever has been lost or delayed since; at rest, with equal views,
                        they are exactly that, which is C
``eager``               C for each other broker: it raises itself without a word
======================  ==========================================================================

Where a word is not enough, a broker counts with C, or what it may take unasked:

* One that takes part where this one does not, or holds no more than its reserve yet, need not ask it;
  nor need one that was there before this one, and was not heard yet, have asked.
* One that was not heard for half of ``hold`` may have ceased to wait for answers (raising.py).
* One that says that it does not hear everybody moves to C/N in the end (trouble.py).

*Who counts.* Every member; and every broker that left the membership without a farewell, since it may
only be cut off: such a one never raises itself (trouble.py), and counts until it is back and heard. Who
said farewell only finishes what is under way. *Which C*: while a changed definition is under way, the
highest that anybody may go by, until every member's report has shown (agreement.py) that it goes by the
new one.

Assumed: this sidecar is connected to ZooKeeper and has read what it holds; a report is late by less than
half of ``hold``; nobody lies. While it is cut off, is no member or has just stood still, it certifies
nothing but what the books say. Not in the sum, but said beside it: a broker that registered a moment ago
and is not seen here yet holds at most its arrival reserve (under ``eager`` C); and each bucket lets
``burst`` of its rate through at once, or one message if that is larger, so what is admitted in any T
seconds is at most T times the sum and the bursts. Unknown is a broker that was cut off before this
sidecar started.

Every sidecar's certificate is true, so the lowest of all is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coordinator.core.model import Dimension


class Basis(Enum):
    """What is known of a broker's local limit."""

    OWN = "in force here"
    ANNOUNCED = "announced"
    RESERVE = "takes no part"
    UNTOLD = "need not ask this one"
    LATE = "was not heard for long"
    TROUBLED = "does not hear everybody"
    UNBOUND = "raises itself without a word"
    DEPARTED = "left without a word"


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
        most: the sum, per second; None when nothing can be said.
        newcomer: what each broker that is not seen here yet may hold on top, per second.
        burst: what all buckets together may let through at once on top, messages or bytes.
        holders: what it is made of; under ``strict``, where only the sum is known, nobody.
        obstacle: why nothing can be said; empty when something is.
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
        """The same in words."""
        if self.most is None:
            return f"Nothing can be said of what all may hold together: {self.obstacle}."
        certain = f"All together hold at most {self.most:,}/s of {self.limit:,}/s now"
        unsure = [
            f"{holder.broker} {holder.basis.value}"
            for holder in self.holders
            if holder.basis not in (Basis.OWN, Basis.ANNOUNCED, Basis.RESERVE)
        ]
        return f"{certain}: {', '.join(unsure)}." if unsure else f"{certain}."
