"""A broker whose sidecar is gone keeps a fair part of the limit, and no more than it uses."""

from __future__ import annotations

from coordinator.native.engine.entries import NOTHING, Amounts
from coordinator.native.engine.standing_in import entry_of_orphan


def test_a_saturated_orphan_gets_the_mean_of_the_steered_entries() -> None:
    """A broker that has no part at all in a group does not count for the mean."""
    entries = [Amounts(300, 9_000), Amounts(100, 3_000), NOTHING]
    assert entry_of_orphan(Amounts(200, 6_000), entries) == Amounts(200, 6_000)


def test_an_orphan_that_uses_little_gets_twice_its_use_and_a_little() -> None:
    """The rest stays with the others."""
    assert entry_of_orphan(Amounts(10), [Amounts(1_600), Amounts(1_600)]).messages == 120


def test_an_orphan_that_uses_nothing_gets_nothing() -> None:
    """Pulsar leaves it a message per second, and its next report tells that it began."""
    assert entry_of_orphan(NOTHING, [Amounts(1_600)]) == NOTHING
    assert entry_of_orphan(Amounts(5), [NOTHING]) == NOTHING


def test_an_orphan_that_begins_has_its_part_after_five_intervals() -> None:
    """Each interval it uses what it was given."""
    used, entries = 1, [Amounts(1_000), Amounts(1_000)]
    for _ in range(5):
        used = entry_of_orphan(Amounts(used), entries).messages
    assert used == 1_000
