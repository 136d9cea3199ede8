"""Escrow: books for the policy ``strict``, under which limits never add up to more than the group's.

A group's quota is TOTAL *parts* in each dimension; a broker's local limit is its part of the group's
limit, ``holding * limit // TOTAL``, so a changed limit rescales all brokers without a message. An
*account* is one incarnation of a broker. Its books are monotone totals (Balegas et al. 2015, bounded
counters)::

    holding = base + sum of received[k] - sum of issued[k]          over all other accounts k

To give, an account raises ``issued[k]``, which lowers its own holding at once, and then reports it; the
receiver takes the largest total it ever heard. Loss, delay, duplicates and reordering can only make a
receiver know less than was issued, so no parts appear from nothing: the holdings add up to TOTAL, less
the grants under way. A restarted broker is a new account, with nothing.

The *record* in the store holds the bases; together they are TOTAL. It changes only after a death:

1. *Close.* A broker that learns that an account is dead closes it: an irrevocable promise to give it
   nothing and to take nothing more from it. Its ``received`` and ``issued`` are final from then on; the
   broker reports them to all others, which then close the account too.
2. *Claim.* The heir (the lowest broker) waits for the closures of all dead accounts D from all members,
   made under the present version of the record. Transfers within D cancel, so the estate of D, grants
   under way included, is known exactly::

       estate = sum of bases of D + sum over members k of (issued[k -> D] - received[k <- D])

   The heir writes a record without D, in which each member's base takes up the transfers between it and
   D, and the heir's base the estate too. This changes only the heir's holding, and the bases add up to
   TOTAL again. The write is a compare-and-set: the loser of a race reads again.
3. *Follow.* A broker that sees the new record forgets its books on D, in the same step in which its base
   changes. A claim needs closures of the present version from every member, so no member ever misses
   a version, and nothing is inherited twice.

*Death.* An account is dead when its registration is gone, and by then it has stopped: its limits are
leased, nothing passes after the end of the lease, and that comes before ZooKeeper can drop the session
(lease.py). The gate checks the lease itself, so this also holds for a process that stood still for a
while. A broker that sent a farewell has stopped before. Only where a new registration of the same broker
replaced another one, the former holder may still be running; the heir then waits for the *fence*: T, the
longest that its lease can last. Assumptions: all sidecars have the same T; clocks run equally fast to a
twentieth; a view of the membership is the state of ZooKeeper at some moment less than T ago; and a
process that replaced another one does not leave before the lease of that one is over.

Guarantee: from the moment when every sidecar knows that its group is strict and follows its record, the
limits in force of all running sidecars, cut off or not, never add up to more than the group's limit, or,
until all know a changed limit, than the larger of the two. While a group becomes strict the guarantee is
that of ``balanced``, since the record starts from the announced limits.

Prices: a dead broker's share comes back a round after its session has ended, that is T and up to a tick
after it was last heard of (T later if it was restarted before, at once after a farewell); when ZooKeeper
is silent for a third of T nothing passes until it answers; a group that becomes strict later is begun
when the heir has a lease, half of T after; rounding to whole parts and rates leaves at most one per
second and broker unused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from coordinator.core.allocation.laws import apportion
from coordinator.core.invariants import holds
from coordinator.core.model import Account, Closure, Dimension, EscrowRecord, Parts, Rate

TOTAL = 720_720 * 1_500
"""All parts of a dimension: divisible by 1 to 16 and by 1,000, so that common shares are whole; small
enough for 64-bit totals to last for years of giving everything away many times a second."""

NOTHING: Parts = (0, 0, 0, 0)

_INDEX = {dimension: index for index, dimension in enumerate(Dimension)}


class BooksBroken(Exception):
    """A request, or a statement of others, breaks the rules of escrow."""


def add(one: Parts, other: Parts) -> Parts:
    """Return the sum, dimension by dimension."""
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3])


def negative(parts: Parts) -> Parts:
    """Return the same amount as a debt."""
    return (-parts[0], -parts[1], -parts[2], -parts[3])


def total(amounts: Iterable[Parts]) -> Parts:
    """Return the sum of many amounts."""
    result = NOTHING
    for parts in amounts:
        result = add(result, parts)
    return result


def in_dimension(dimension: Dimension, parts: int) -> Parts:
    """Return an amount that has parts in one dimension only."""
    amounts = [0, 0, 0, 0]
    amounts[_INDEX[dimension]] = parts
    return (amounts[0], amounts[1], amounts[2], amounts[3])


def bounded(parts: Parts) -> Parts:
    """Return an amount as far as one account can hold it: from nothing to TOTAL in each dimension."""
    return (
        min(max(parts[0], 0), TOTAL),
        min(max(parts[1], 0), TOTAL),
        min(max(parts[2], 0), TOTAL),
        min(max(parts[3], 0), TOTAL),
    )


def of_dimension(dimension: Dimension, parts: Parts) -> int:
    """Return the parts of an amount in one dimension."""
    return parts[_INDEX[dimension]]


def limit_of(parts: int, limit: Rate) -> int:
    """Return the local limit that equals this number of parts of a group's limit, per second."""
    return int(parts * limit // TOTAL)


def fraction_of(parts: int, limit: Rate) -> Fraction:
    """Return what this number of parts is beside that local limit, below 1 per second."""
    return Fraction(parts * limit % TOTAL) / TOTAL


def parts_for(rate: Rate, limit: Rate) -> int:
    """Return the fewest parts of a group's limit (> 0) that give a local limit of this rate."""
    return int(-(-rate * TOTAL // limit))


def transfers(
    limit: Rate, broker: str, targets: Mapping[str, Rate], holdings: Mapping[str, int]
) -> dict[str, int]:
    """Split a broker's surplus over its target among the members that are below theirs.

    Every broker with a surplus gives the same fraction of it, so that all transfers together cover the
    need. A member that has the rate of its target needs no more, even if it is a few parts below.

    Args:
        limit: the group's limit, per second.
        broker: the giver.
        targets: the law's target of every member, per second.
        holdings: the parts of the members whose holding is known, the giver's included.
    """
    if not limit:
        return {}
    over = {name: held - parts_for(targets[name], limit) for name, held in holdings.items()}
    if over[broker] <= 0:
        return {}
    surplus = sum(parts for parts in over.values() if parts > 0)
    needs = {
        name: -over[name]
        for name, held in holdings.items()
        if limit_of(held, limit) < targets[name] and over[name] < 0
    }
    given = min(over[broker], over[broker] * sum(needs.values()) // surplus)
    return {name: parts for name, parts in apportion(given, needs).items() if parts > 0}


class Books:
    """The books of one account on one group. See the module's head."""

    def __init__(self, account: Account, record: EscrowRecord) -> None:
        self.account = account
        self.record = record
        #: Every account that was closed since the record was written.
        self.closed: set[Account] = set()
        self._received: dict[Account, Parts] = {}
        self._issued: dict[Account, Parts] = {}

    def holding(self) -> Parts:
        """Return the parts that the account may use; at most TOTAL, whatever others claim to give."""
        return bounded(self._booked())

    def _booked(self) -> Parts:
        base = self.record.bases.get(self.account, NOTHING)
        received, issued = total(self._received.values()), total(self._issued.values())
        return add(add(base, received), negative(issued))

    def issued(self) -> Mapping[Account, Parts]:
        """Return the totals ever given, by receiver."""
        return self._issued

    def issue(self, receiver: Account, parts: Parts) -> None:
        """Give; the holding is lower at once, the receiver's higher when it hears of the new total.

        Raises:
            BooksBroken: the receiver is closed or this account itself, or the holding is too small.
        """
        held = self.holding()
        if receiver in self.closed or receiver == self.account:
            raise BooksBroken(f"{self.account} must not give to {receiver}")
        if any(amount < 0 or amount > have for amount, have in zip(parts, held, strict=True)):
            raise BooksBroken(f"{self.account} must not give {parts} of {held}")
        self._issued[receiver] = add(self._issued.get(receiver, NOTHING), parts)

    def receive(self, giver: Account, issued: Parts) -> bool:
        """Take in the totals that another account has issued; return whether they are news."""
        known = self._received.get(giver, NOTHING)
        newest = self._newest(known, issued)
        shut = giver in self.closed or giver in self.record.claimed or giver == self.account
        if shut or newest == known:
            return False
        self._received[giver] = newest
        return True

    def close(self, account: Account) -> bool:
        """Stop dealing with a dead account for ever; return whether that is news."""
        if account in self.closed or account == self.account or account in self.record.claimed:
            return False
        self.closed.add(account)
        return True

    def closures(self) -> dict[Account, Closure]:
        """Return the transfers between this account and every closed one."""
        return {
            account: Closure(
                self._received.get(account, NOTHING), self._issued.get(account, NOTHING)
            )
            for account in sorted(self.closed)
        }

    def follow(self, record: EscrowRecord) -> None:
        """Take over a newer record of the same generation, which settles the books on the claimed."""
        self.record = record
        for account in record.claimed:
            self.closed.discard(account)
            self._received.pop(account, None)
            self._issued.pop(account, None)

    def validate(self) -> None:
        """Check the record and the books.

        Raises:
            InvariantBroken: a statement does not hold.
        """
        bases = total(self.record.bases.values())
        holds(
            all(parts == TOTAL for parts in bases),
            "The bases of a record add up to all parts in every dimension",
            group=self.record.group,
            version=self.record.version,
            bases=bases,
            parts=TOTAL,
        )
        booked = self._booked()
        holds(
            min(booked) >= 0,
            "An account gives no more parts than its base and the transfers that it received",
            group=self.record.group,
            account=self.account,
            base=self.record.bases.get(self.account, NOTHING),
            received=total(self._received.values()),
            issued=total(self._issued.values()),
        )
        shut = {self.account} | self.record.claimed
        holds(
            not self.closed & shut,
            "Neither the own account nor a claimed one is closed",
            group=self.record.group,
            closed=sorted(self.closed & shut),
        )

    @staticmethod
    def _newest(one: Parts, other: Parts) -> Parts:
        return (
            max(one[0], other[0]),
            max(one[1], other[1]),
            max(one[2], other[2]),
            max(one[3], other[3]),
        )


def claim(
    record: EscrowRecord, heir: Account, closures: Mapping[Account, Mapping[Account, Closure]]
) -> EscrowRecord:
    """Return the record after the heir has inherited from all dead accounts.

    Args:
        record: the present one; the new one replaces exactly this version.
        heir: the account that gets the estate.
        closures: of every member, the heir included: all of the same dead accounts.

    Raises:
        BooksBroken: the members do not close the same accounts, or their figures contradict each
            other.
    """
    dead = frozenset(closures[heir])
    if any(said.keys() != dead for said in closures.values()) or dead & closures.keys():
        raise BooksBroken(f"{record.group}: the members have not closed the same accounts")
    bases = {account: base for account, base in record.bases.items() if account not in dead}
    estate = total(base for account, base in record.bases.items() if account in dead)
    for member, said in closures.items():
        passed = total(add(with_.received, negative(with_.issued)) for with_ in said.values())
        bases[member] = add(bases.get(member, NOTHING), passed)
        estate = add(estate, negative(passed))
    if min(estate) < 0:
        raise BooksBroken(f"{record.group}: the dead would have held {estate}")
    bases[heir] = add(bases[heir], estate)
    kept = {account: base for account, base in bases.items() if base != NOTHING}
    return EscrowRecord(record.group, record.generation, record.version, kept, claimed=dead)
