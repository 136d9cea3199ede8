"""The books of escrow: giving, taking, closing, inheriting; then every order of a few of those."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.escrow.books import (
    NOTHING,
    TOTAL,
    Books,
    BooksBroken,
    claim,
    in_dimension,
    limit_of,
    of_dimension,
    parts_for,
    total,
    transfers,
)
from coordinator.core.model import Account, Closure, Dimension, EscrowRecord, Parts

MESSAGES = Dimension.PUBLISH_MESSAGES
A, B, C = Account("a", 1), Account("b", 2), Account("c", 3)
EVERYTHING: Parts = (TOTAL, TOTAL, TOTAL, TOTAL)


def record(**bases: int) -> EscrowRecord:
    """A record in which a, b and c have these bases of messages, and a all of the rest."""
    accounts = {"a": A, "b": B, "c": C}
    found = {accounts[name]: in_dimension(MESSAGES, parts) for name, parts in bases.items()}
    rest = tuple(TOTAL - given for given in total(found.values()))
    found[A] = (rest[0], rest[1], rest[2], rest[3])
    return EscrowRecord("orders", 1, 0, found)


def some(parts: int) -> Parts:
    """This number of parts of messages."""
    return in_dimension(MESSAGES, parts)


def held(books: Books) -> int:
    """The parts of messages that an account holds."""
    return of_dimension(MESSAGES, books.holding())


def test_what_is_given_is_gone_before_it_arrives() -> None:
    """A transfer under way has no owner; it arrives once, in any order of reports and repeats."""
    giver, receiver = Books(A, record()), Books(B, record())
    giver.issue(B, some(100))
    first = giver.issued()[B]
    giver.issue(B, some(50))
    assert held(giver) == TOTAL - 150

    assert receiver.receive(A, giver.issued()[B])
    assert not receiver.receive(A, first)
    assert not receiver.receive(A, giver.issued()[B])
    assert held(receiver) == 150


def test_an_account_gives_no_more_than_it_holds() -> None:
    """An account gives no more than it holds, nothing negative, and nothing to itself or to the dead."""
    books = Books(B, record(b=100))
    books.close(C)
    for receiver, parts in ((A, 101), (A, -1), (B, 1), (C, 1)):
        with pytest.raises(BooksBroken):
            books.issue(receiver, some(parts))
    assert held(books) == 100


def test_a_closed_account_is_closed_for_ever() -> None:
    """A late report of a dead account changes nothing, before and after its estate is claimed."""
    books = Books(A, record(b=100))
    books.receive(B, some(30))
    assert books.close(B)
    assert not books.close(B)
    assert not books.receive(B, some(90))
    assert books.closures() == {B: Closure(some(30), NOTHING)}

    books.follow(claim(books.record, A, {A: books.closures()}))
    assert not books.receive(B, some(90))
    assert held(books) == TOTAL


def test_the_heir_gets_what_the_dead_held_and_what_was_under_way() -> None:
    """One dies with 40 on the way to it and 5 on the way from it; all of it comes back."""
    a, b, c = (Books(account, record(b=100, c=200)) for account in (A, B, C))
    a.issue(C, some(40))
    c.issue(B, some(60))
    b.receive(C, some(60))
    c.issue(A, some(5))
    before = held(b)
    for books in (a, b):
        books.close(C)
    after = claim(a.record, A, {A: a.closures(), B: b.closures()})
    a.follow(after)
    b.follow(after)

    assert held(b) == before == 160
    assert held(a) == TOTAL - 160
    assert total(after.bases.values()) == EVERYTHING
    assert after.claimed == {C}


def test_what_passed_with_the_dead_is_known_when_the_survivor_dies_too() -> None:
    """The survivor b lives on c's transfer; when b dies, too, a inherits that and no part is lost."""
    a, b, c = (Books(account, record(c=200)) for account in (A, B, C))
    c.issue(B, some(200))
    b.receive(C, some(200))
    for books in (a, b):
        books.close(C)
    first = replace(claim(a.record, A, {A: a.closures(), B: b.closures()}), version=1)
    for books in (a, b):
        books.follow(first)
    assert held(b) == 200
    a.close(B)
    a.follow(claim(first, A, {A: a.closures()}))

    assert held(a) == TOTAL


def test_members_that_disagree_about_the_dead_inherit_nothing() -> None:
    """A claim needs all members' closures of exactly the same accounts."""
    a, b = Books(A, record(b=1, c=2)), Books(B, record(b=1, c=2))
    a.close(C)
    with pytest.raises(BooksBroken, match="not closed the same"):
        claim(a.record, A, {A: a.closures(), B: b.closures()})


def test_figures_that_cannot_be_are_not_inherited() -> None:
    """A survivor claims more transfers from the dead account than it had."""
    a, b = Books(A, record(c=10)), Books(B, record(c=10))
    b.receive(C, some(11))
    a.close(C)
    b.close(C)
    with pytest.raises(BooksBroken, match="would have held"):
        claim(a.record, A, {A: a.closures(), B: b.closures()})


def test_no_claim_makes_an_account_hold_more_than_the_limit() -> None:
    """A forged grant is worth the whole limit at the most."""
    books = Books(B, record(b=100))
    books.receive(A, (2**63 - 1,) * 4)

    assert books.holding() == EVERYTHING


@given(rate=st.integers(0, 10**12), limit=st.integers(1, 10**12))
def test_the_parts_for_a_rate_are_the_fewest_that_give_it(rate: int, limit: int) -> None:
    """Rounding never takes a local limit below the rate that was meant."""
    parts = parts_for(min(rate, limit), limit)

    assert limit_of(parts, limit) >= min(rate, limit)
    assert parts == 0 or (parts - 1) * limit < min(rate, limit) * TOTAL


@given(
    limit=st.integers(0, 100_000),
    targets=st.lists(st.integers(0, 1000), min_size=3, max_size=3),
    shares=st.lists(st.integers(0, 1000), min_size=3, max_size=3),
)
def test_gifts_never_exceed_the_surplus_nor_all_together_the_need(
    limit: int, targets: list[int], shares: list[int]
) -> None:
    """No giver falls below its target, and no receiver rises above its own."""
    whole = max(1, sum(targets), sum(shares))
    wanted = {name: limit * t // whole for name, t in zip("abc", targets, strict=True)}
    holdings = {name: TOTAL * s // whole for name, s in zip("abc", shares, strict=True)}
    given_by = {name: transfers(limit, name, wanted, holdings) for name in "abc"}
    for name, presents in given_by.items():
        left = holdings[name] - sum(presents.values())
        assert not presents or left >= parts_for(wanted[name], limit)
        got = sum(others.get(name, 0) for others in given_by.values())
        assert got == 0 or holdings[name] + got <= parts_for(wanted[name], limit) + len("abc")


def test_the_needy_get_what_all_the_others_have_too_much() -> None:
    """900, 100 and 0 of 1,000 with equal targets: the first alone gives, to both."""
    targets = {"a": 334, "b": 333, "c": 333}
    holdings = {"a": TOTAL * 9 // 10, "b": TOTAL // 10, "c": 0}

    presents = transfers(1000, "a", targets, holdings)
    assert limit_of(holdings["b"] + presents["b"], 1000) == 333
    assert limit_of(presents["c"], 1000) == 333
    assert transfers(1000, "b", targets, holdings) == {}


# Every order of a few steps, on the books alone.


@dataclass
class Play:
    """Two or three accounts, what each has said, and who is dead."""

    books_of: dict[Account, Books]
    record: EscrowRecord
    #: Statements ever made: (sender, receiver, total), to be heard at any time, any number of times.
    said: list[tuple[Account, Account, Parts]] = field(default_factory=list)
    #: Closures told to all members, with the version they were made under.
    told: dict[Account, tuple[int, dict[Account, Closure]]] = field(default_factory=dict)
    dead: set[Account] = field(default_factory=set)

    def copied(self) -> Play:
        """The same, to go on from in another way; what is said is never changed."""
        books_of = {}
        for account, books in self.books_of.items():
            books_of[account] = copy.copy(books)
            books_of[account].closed = set(books.closed)
            books_of[account]._received = dict(books._received)
            books_of[account]._issued = dict(books._issued)
        return Play(books_of, self.record, list(self.said), dict(self.told), set(self.dead))

    def alive(self) -> list[Account]:
        """The running ones: the dead have stopped, that is what the fence is for."""
        return [account for account in sorted(self.books_of) if account not in self.dead]

    def check(self) -> None:
        """The living hold no more than there is, and a record is all there is."""
        assert sum(held(self.books_of[account]) for account in self.alive()) <= TOTAL
        assert total(self.record.bases.values()) == EVERYTHING


Step = Callable[[Play], bool]


def give(giver: Account, receiver: Account) -> Step:
    """Half of what is held, said once."""

    def step(play: Play) -> bool:
        books = play.books_of[giver]
        possible = giver not in play.dead and receiver not in books.closed | books.record.claimed
        if possible and held(books) > 1:
            books.issue(receiver, some(held(books) // 2))
            play.said.append((giver, receiver, books.issued()[receiver]))
            return True
        return False

    return step


def hear(index: int) -> Step:
    """A statement arrives; it may arrive again later."""

    def step(play: Play) -> bool:
        if index >= len(play.said):
            return False
        giver, receiver, parts = play.said[index]
        return receiver not in play.dead and play.books_of[receiver].receive(giver, parts)

    return step


def die(account: Account) -> Step:
    """End a process before any other one notices."""

    def step(play: Play) -> bool:
        if account in play.dead or len(play.alive()) == 1:
            return False
        play.dead.add(account)
        return True

    return step


def notice(account: Account) -> Step:
    """One of the living closes all the dead and says so."""

    def step(play: Play) -> bool:
        books = play.books_of[account]
        unnoticed = play.dead - books.closed - books.record.claimed
        if account in play.dead or not unnoticed:
            return False
        for dead in sorted(unnoticed):
            books.close(dead)
        play.told[account] = (books.record.version, books.closures())
        return True

    return step


def inherit(play: Play) -> bool:
    """The first of the living writes the record, if the rules allow it."""
    alive = play.alive()
    heir = play.books_of[alive[0]]
    closures = {}
    for account in alive:
        version, said = play.told.get(account, (-1, {}))
        if version != play.record.version or said.keys() != heir.closed or not said:
            return False
        closures[account] = said
    play.record = replace(
        claim(play.record, heir.account, closures), version=play.record.version + 1
    )
    return True


def follow(account: Account) -> Step:
    """One of the living sees the present record."""

    def step(play: Play) -> bool:
        books = play.books_of[account]
        if account in play.dead or books.record.version == play.record.version:
            return False
        assert play.record.version == books.record.version + 1, "a version was missed"
        books.follow(play.record)
        return True

    return step


def explore(accounts: tuple[Account, ...], prologue: list[Step], depth: int) -> int:
    """Every sequence of possible steps after the prologue, up to a depth; returns the states seen."""
    steps: list[Step] = [
        *(give(one, other) for one, other in itertools.permutations(accounts, 2)),
        *(hear(index) for index in range(3)),
        *(make(account) for make in (die, notice, follow) for account in accounts),
        inherit,
    ]
    start = record(b=TOTAL // 3)
    first = Play({account: Books(account, start) for account in accounts}, start)
    assert all(step(first) for step in prologue)
    layer = [first]
    seen: set[str] = set()
    for _ in range(depth):
        following = []
        for play in layer:
            for step in steps:
                after = play.copied()
                if not step(after):
                    continue
                after.check()
                state = fingerprint(after)
                if state not in seen:
                    seen.add(state)
                    following.append(after)
        layer = following
    return len(seen)


def fingerprint(play: Play) -> str:
    """Two plays with the same one go on alike."""
    stands = [
        (
            books.record.version,
            held(books),
            sorted(books.closed),
            sorted(books.issued().items()),
            sorted(books._received.items()),
        )
        for _, books in sorted(play.books_of.items())
    ]
    bases = sorted(play.record.bases.items())
    return repr((stands, play.said, sorted(play.told.items()), sorted(play.dead), bases))


TRADED_AND_DEAD = [give(A, C), hear(0), give(C, B), give(B, C), die(C)]
"""A gift that arrived, one from a dead account that may still arrive, and one to it."""


@pytest.mark.parametrize(
    ("accounts", "prologue", "depth"),
    [((A, B), [], 8), ((A, B, C), [], 4), ((A, B, C), TRADED_AND_DEAD, 5)],
    ids=["two", "three", "three, one dead"],
)
def test_no_order_of_steps_makes_parts_out_of_nothing(
    accounts: tuple[Account, ...], prologue: list[Step], depth: int
) -> None:
    """Give, hear late and twice, die, notice, inherit, follow: all interleavings, exhaustively."""
    assert explore(accounts, prologue, depth) > 500
