"""Old bus messages are told by their publish time, whatever the difference of two clocks."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator.adapters.pulsar import freshness
from coordinator.adapters.pulsar.freshness import REMEMBERED, Freshness

NOW_MS = 1_800_000_000_000
MAX_MS = 2_000


@pytest.mark.shows("pip-82/stale")
@pytest.mark.parametrize("clock_ms", [0, -3_600_000, 3_600_000])
def test_a_message_that_took_too_long_is_old(clock_ms: int) -> None:
    """By the delay of its sender's quickest message, not by the sender's clock."""
    fresh = Freshness(MAX_MS)
    delays = [30, 10, 2_000, 2_011, 9_000, 12]
    told = [
        fresh.is_old("one", NOW_MS + at * 1_000 + clock_ms, NOW_MS + at * 1_000 + delay)
        for at, delay in enumerate(delays)
    ]
    assert told == [False, False, False, True, True, False]


def test_a_clock_that_is_set_costs_a_few_messages_at_most() -> None:
    """Set back, its messages seem old until they are all that is remembered; set forward, none does."""
    fresh = Freshness(MAX_MS)
    fresh.is_old("one", NOW_MS, NOW_MS)
    told = [fresh.is_old("one", NOW_MS + at - 60_000, NOW_MS + at) for at in range(40)]
    assert told == [True] * (REMEMBERED - 1) + [False] * (41 - REMEMBERED)
    assert not fresh.is_old("one", NOW_MS + 60_000, NOW_MS)


def test_senders_are_told_apart_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was silent longest is forgotten, and begins anew."""
    monkeypatch.setattr(freshness, "SENDERS_MAX", 2)
    fresh = Freshness(MAX_MS)
    for sender in ("one", "two", "one", "three"):
        assert not fresh.is_old(sender, NOW_MS, NOW_MS)
    assert fresh.is_old("one", NOW_MS, NOW_MS + 5_000)
    assert not fresh.is_old("two", NOW_MS, NOW_MS + 5_000)


@pytest.mark.parametrize("published_ms", [0, -1, 2**63 - 1, 2**64])
def test_a_time_that_makes_no_sense_hurts_its_sender_alone(published_ms: int) -> None:
    """Another sender's messages are as fresh as before."""
    fresh = Freshness(MAX_MS)
    fresh.is_old("liar", published_ms, NOW_MS)
    times = [NOW_MS + 1_000 * at for at in range(5)]
    assert not any(fresh.is_old("one", before, after) for before, after in pairwise(times))
