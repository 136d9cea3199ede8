"""This broker's books on all strict groups: statements taken in, statements to send, records to write.

books.py has the rules and the proof of their safety; this module adds the time, the members and the
reports.

* Grants count only if they come from a member, whatever the order of the reports. All other content of a
  statement counts only if no newer statement of that account was taken.
* An account is dead if it is missing from a view of the membership that shows a later registration, if it
  was seen and is missing now, or if a member reports that it closed it and it is not seen here.
* A broker whose registration is gone had stopped before (lease.py), and so had one that sent a farewell.
  Where a registration was replaced, the former holder may still run: the fence, T, is waited for.
* A statement is due at once when something in it changed, for ``repeat_rounds`` rounds after that, since
  reports get lost, and in every complete report.
* The announcement of a receiver does not show a grant at once. For a round, or until the receiver
  announces another holding, the grant is added to it, so that no broker gets the same parts twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from coordinator.core.allocation.forest import Forest
from coordinator.core.escrow.books import NOTHING, Books, BooksBroken, add, bounded, claim
from coordinator.core.escrow.bootstrap import first_record
from coordinator.core.invariants import holds
from coordinator.core.model import (
    Account,
    EscrowRecord,
    EscrowStatement,
    Member,
    Parts,
    ResourceGroup,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import STRICT
from coordinator.core.usage.map import UsageMap


@dataclass(slots=True)
class _Heard:
    """The newest statement of another account, and the grants to it since."""

    sequence: int
    statement: EscrowStatement
    given: Parts = NOTHING
    given_round: int = 0


@dataclass(slots=True)
class _Kept:
    """The books of one group with their timers."""

    books: Books
    heard: dict[Account, _Heard] = field(default_factory=dict)
    #: Until when a closed account may still let something through.
    fence_ns: int = 0
    #: Receivers whose totals are in every statement, and for how many rounds.
    fresh: dict[Account, int] = field(default_factory=dict)
    #: Rounds in which a statement is still to be made, whatever changes.
    repeats: int = 0


class Escrow:
    """Keep this broker's books on all strict groups."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._account: Account | None = None
        self._records: dict[str, EscrowRecord] = {}
        self._kept: dict[str, _Kept] = {}
        self._members: dict[str, Member] = {}
        #: The members' accounts, and the lowest of them, which writes for all.
        self._living: frozenset[Account] = frozenset()
        self._heir: Account | None = None
        #: Members that sent a farewell: they let nothing through any more.
        self._released: set[Account] = set()
        #: The latest registration ever seen: earlier ones that are not seen are over.
        self._latest = 0
        self._due: set[str] = set()
        self._round = 0
        #: The round in which a write was asked for; asked again in the next if nothing came of it.
        self._asked: dict[str, int] = {}

    @property
    def is_open(self) -> bool:
        """Return whether this broker has accounts: it is registered."""
        return self._account is not None

    def open_accounts(self, incarnation: int, now_ns: int) -> None:
        """Open new, empty books after a new registration."""
        self._account = Account(self._settings.broker, incarnation)
        self._kept = {
            group: _Kept(Books(self._account, record)) for group, record in self._records.items()
        }
        for group in self._kept:
            self._news(group)
        self._close_dead(now_ns)

    def close_accounts(self) -> None:
        """End the accounts of a lost registration; the others inherit their parts."""
        self._account = None
        self._kept.clear()
        self._due.clear()

    def set_records(self, records: Iterable[EscrowRecord], now_ns: int) -> list[str]:
        """Take over the records of the store; return the groups whose record changed."""
        before = self._records
        self._records = {record.group: record for record in records}
        changed = [
            group for group, record in self._records.items() if before.get(group) != record
        ] + sorted(before.keys() - self._records.keys())
        for group in changed:
            self._follow(group, self._records.get(group))
        self._close_dead(now_ns)
        return changed

    def set_members(self, members: Mapping[str, Member], now_ns: int) -> None:
        """Take over the membership."""
        gone = {
            Account(member.broker, member.incarnation)
            for member in self._members.values()
            if (now := members.get(member.broker)) is None or now.incarnation != member.incarnation
        }
        self._members = dict(members)
        self._living = frozenset(Account(m.broker, m.incarnation) for m in members.values())
        self._heir = min(self._living, default=None)
        self._latest = max([self._latest, *(m.incarnation for m in members.values())])
        for group in self._kept:
            self._close(group, gone, now_ns)
        self._close_dead(now_ns)
        self._released &= self._living
        for kept in self._kept.values():
            for account in kept.heard.keys() - self._living:
                del kept.heard[account]

    def take(self, report: UsageReport, now_ns: int) -> list[str]:
        """Take in the statements of a report; return the groups that they are about."""
        sender = Account(report.broker, report.incarnation)
        if self._account is None or sender == self._account or sender not in self._living:
            return []
        if report.leaving:
            self._released.add(sender)
        changed = []
        for statement in report.escrow:
            kept = self._kept.get(statement.group)
            if kept is None or kept.books.record.generation != statement.generation:
                continue
            if kept.books.receive(sender, statement.grants.get(self._account, NOTHING)):
                self._news(statement.group)
            self._close(statement.group, statement.closures.keys() - self._living, now_ns)
            _hear(kept, sender, report.sequence, statement)
            changed.append(statement.group)
        return changed

    def close_round(self) -> None:
        """Close a round: recent news is repeated once more."""
        self._round += 1
        for group, kept in self._kept.items():
            if kept.repeats:
                kept.repeats -= 1
                self._due.add(group)
            kept.fresh = {account: left - 1 for account, left in kept.fresh.items() if left}

    def holding(self, group: str) -> Parts | None:
        """Return this broker's parts of a group; None while its record is unknown."""
        kept = self._kept.get(group)
        return kept.books.holding() if kept is not None else None

    def told(self, group: str) -> set[str] | None:
        """Return the brokers known to follow the books of a group; None if this one does not."""
        kept = self._kept.get(group)
        if kept is None:
            return None
        followers = {account.broker for account in kept.heard if account not in kept.books.closed}
        return followers | {self._settings.broker}

    def holdings(self, group: str) -> dict[str, Parts]:
        """Return the holding that each member has stated, plus the grants to it since.

        A member that states more than there is counts with all there is: it would otherwise seem to have
        all of the surplus, and no other would give any of its own.
        """
        kept = self._kept[group]
        known = {self._settings.broker: kept.books.holding()}
        for account, heard in kept.heard.items():
            still = self._round - heard.given_round <= 1
            given = heard.given if still else NOTHING
            if account not in kept.books.closed:
                known[account.broker] = bounded(add(heard.statement.holding, given))
        return known

    def give(self, group: str, broker: str, parts: Parts) -> None:
        """Grant a member some of this broker's parts; the next report announces it."""
        kept = self._kept[group]
        receiver = Account(broker, self._members[broker].incarnation)
        kept.books.issue(receiver, parts)
        heard = kept.heard[receiver]
        heard.given = add(heard.given, parts)
        heard.given_round = self._round
        kept.fresh[receiver] = self._settings.repeat_rounds + 1
        self._news(group)

    def due(self) -> bool:
        """Return whether something must be reported at once."""
        return bool(self._due)

    def statements(self, *, complete: bool) -> tuple[EscrowStatement, ...]:
        """Return the statements to report now; all of them in a complete report."""
        groups = sorted(self._kept if complete else self._due & self._kept.keys())
        self._due.clear()
        return tuple(self._statement(self._kept[group], complete=complete) for group in groups)

    def writes(
        self,
        groups: Mapping[str, ResourceGroup],
        forest: Forest,
        usage: UsageMap,
        now_ns: int,
    ) -> list[EscrowRecord]:
        """Return the records that this broker, as the heir, must write now: first or inherited ones."""
        if self._account is None or not self._is_heir():
            return []
        wanted = []
        for name in sorted(groups.keys() - self._just_asked()):
            if groups[name].overshoot_policy != STRICT:
                continue
            record = (
                self._claim(self._kept[name], now_ns)
                if name in self._kept
                else first_record(
                    groups[name],
                    [groups[leaf] for leaf in forest.leaves_of.get(name, (name,))],
                    self._account,
                    self._members,
                    usage,
                    self._settings,
                )
            )
            if record is not None:
                self._asked[name] = self._round
                wanted.append(record)
        return wanted

    def fences_ns(self, now_ns: int) -> Iterator[int]:
        """Yield the ends of all fences to come; records may be due to be written then."""
        return (kept.fence_ns for kept in self._kept.values() if kept.fence_ns > now_ns)

    def leftovers(self, groups: Mapping[str, ResourceGroup]) -> list[EscrowRecord]:
        """Return the records that this broker, as the heir, must remove: their groups are deleted."""
        if not self._is_heir():
            return []
        names = sorted(self._records.keys() - groups.keys() - self._just_asked())
        self._asked.update(dict.fromkeys(names, self._round))
        return [self._records[name] for name in names]

    def validate(self) -> None:
        """Check the books of all groups.

        Raises:
            InvariantBroken: a statement does not hold.
        """
        for group, kept in self._kept.items():
            account, record = kept.books.account, kept.books.record
            holds(
                account == self._account,
                "Books belong to the present registration",
                group=group,
                books=account,
                registration=self._account,
            )
            stored = self._records.get(group)
            holds(
                stored is not None and stored.generation == record.generation,
                "Books follow the record of the store",
                group=group,
                books=record.generation,
                store=stored and stored.generation,
            )
            strangers = kept.heard.keys() - self._living
            holds(not strangers, "Only members' statements are kept", group=group, of=strangers)
            kept.books.validate()

    def _is_heir(self) -> bool:
        return self._account is not None and self._account == self._heir

    def _just_asked(self) -> set[str]:
        self._asked = {name: asked for name, asked in self._asked.items() if asked == self._round}
        return set(self._asked)

    def _follow(self, group: str, record: EscrowRecord | None) -> None:
        self._asked.pop(group, None)
        kept = self._kept.get(group)
        if record is None or self._account is None:
            self._kept.pop(group, None)
            return
        if kept is None or kept.books.record.generation != record.generation:
            self._kept[group] = _Kept(Books(self._account, record))
        elif record.version > kept.books.record.version:
            kept.books.follow(record)
            for account in kept.fresh.keys() & record.claimed:
                del kept.fresh[account]
        self._news(group)

    def _close_dead(self, now_ns: int) -> None:
        for group, kept in self._kept.items():
            dead = {
                account
                for account in kept.books.record.bases.keys() - self._living
                if account.incarnation <= self._latest
            }
            self._close(group, dead, now_ns)

    def _close(self, group: str, accounts: Iterable[Account], now_ns: int) -> None:
        kept = self._kept[group]
        for account in accounts:
            if not kept.books.close(account):
                continue
            kept.fresh.pop(account, None)
            self._news(group)
            if account not in self._released and account.broker in self._members:
                kept.fence_ns = now_ns + self._settings.session_timeout_ns

    def _news(self, group: str) -> None:
        self._due.add(group)
        if group in self._kept:
            self._kept[group].repeats = self._settings.repeat_rounds + 1

    def _statement(self, kept: _Kept, *, complete: bool) -> EscrowStatement:
        books, record = kept.books, kept.books.record
        grants = {
            account: parts
            for account, parts in books.issued().items()
            if account in kept.fresh or (complete and account in self._living)
        }
        return EscrowStatement(
            record.group,
            record.generation,
            record.version,
            books.holding(),
            grants,
            books.closures(),
        )

    def _claim(self, kept: _Kept, now_ns: int) -> EscrowRecord | None:
        books = kept.books
        if not books.closed or now_ns < kept.fence_ns or books.closed & self._living:
            return None
        closures = {books.account: books.closures()}
        for account in self._living - {books.account}:
            heard = kept.heard.get(account)
            if heard is None or heard.statement.version != books.record.version:
                return None
            closures[account] = dict(heard.statement.closures)
        if any(said.keys() != books.closed for said in closures.values()):
            return None
        try:
            return claim(books.record, books.account, closures)
        except BooksBroken:  # on contradictory figures parts are lost rather than created
            return None


def _hear(kept: _Kept, sender: Account, sequence: int, statement: EscrowStatement) -> None:
    heard = kept.heard.get(sender)
    if heard is None:
        kept.heard[sender] = _Heard(sequence, statement)
    elif sequence > heard.sequence:
        if heard.statement.holding != statement.holding:
            heard.given = NOTHING
        heard.sequence, heard.statement = sequence, statement
