"""A topic's storage answers for each cursor, however many ledgers and cursors there are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import overload

import pytest

from coordinator.backlog.rules.model import Cursor, Ledger, Position, TopicStorage


class Counted(Sequence[Ledger]):
    """Ledgers that count how often one is read."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = ledgers
        self.reads = 0

    @overload
    def __getitem__(self, at: int) -> Ledger: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Ledger]: ...
    def __getitem__(self, at: int | slice) -> Ledger | Sequence[Ledger]:
        """Read one."""
        self.reads += 1
        return self._ledgers[at]

    def __len__(self) -> int:
        """Their number."""
        return len(self._ledgers)


@pytest.mark.parametrize("seed", range(50))
def test_answers_are_those_of_entries_counted_one_by_one(seed: int) -> None:
    """Of ledgers with and without entries, and positions within, between, before and after them."""
    dice = random.Random(seed)
    numbers = sorted(dice.sample(range(12), dice.randint(0, 8)))
    storage = TopicStorage(
        [Ledger(n, size := dice.choice((0, 1, 3, 7)), 10 * size) for n in numbers], []
    )
    entries = [(each.number, entry) for each in storage.ledgers for entry in range(each.entries)]
    for ledger in range(-1, 13):
        for entry in range(-1, 9):
            position = Position(ledger, entry)
            behind = [Position(*each) for each in entries if each > (ledger, entry)]
            assert storage.entries_after(position) == len(behind)
            assert storage.size_after(position) == 10 * len(behind)
            assert storage.first_after(position) == (behind[0] if behind else None)
            assert [storage.nth_after(position, n) for n in range(len(behind))] == behind
            with pytest.raises(IndexError):
                storage.nth_after(position, len(behind))


def test_many_cursors_do_not_go_over_all_ledgers() -> None:
    """A client can make as many subscriptions as it likes, and the gate waits for the coordinator."""
    ledgers = Counted([Ledger(number, 100, 1_000) for number in range(1_000)])
    cursors = [Cursor(str(number), Position(number, 99)) for number in range(1_000)]
    storage = TopicStorage(ledgers, cursors)
    for cursor in cursors:
        storage.entries_after(cursor.mark_delete)
        storage.size_after(cursor.mark_delete)
    assert storage.oldest() == cursors[0]
    assert ledgers.reads < 10 * len(ledgers)
