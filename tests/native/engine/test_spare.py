"""A broker borrows up to an equal part of the limit, and gives it back slowly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.native.engine.spare import spare


@given(
    lent=st.integers(0, 10**6),
    limit=st.integers(1, 10**6),
    whole=st.integers(0, 2**40),
    entries=st.integers(0, 2**41),
    brokers=st.integers(1, 512),
    is_used=st.booleans(),
)
def test_a_broker_never_borrows_more_than_up_to_the_equal_part(
    lent: int, limit: int, whole: int, entries: int, brokers: int, *, is_used: bool
) -> None:
    """A broker whose limit is that much already borrows nothing."""
    found = spare(lent, limit, whole, entries, brokers, is_used=is_used)
    assert 0 <= found <= max(0, whole // brokers - limit)


def test_brokers_that_do_not_see_each_others_steps_come_to_the_limit_without_swinging() -> None:
    """A step of all is half of what is left, so that one that is repeated is no more than all of it."""
    lent, whole, before = [0, 0, 0], 3_000, [1, 1, 1]
    for _ in range(12):
        entries = [1 + each for each in lent]
        lent = [spare(each, 1, whole, sum(before), 3, is_used=True) for each in lent]
        assert sum(lent) <= whole
        before = entries
    assert 2_950 <= sum(lent) + 3 <= whole


def test_what_is_lent_ends_where_others_have_the_limit() -> None:
    """After some seconds where it is used, at five steps a second; else at once."""
    lent = 199
    for _ in range(100):
        lent = spare(lent, 1, 600, 598 + 2 * (1 + lent), 3, is_used=True)
    assert lent == 0
    assert spare(0, 1, 600, 600, 3, is_used=True) == 0
    assert spare(199, 1, 600, 598 + 200, 3, is_used=False) == 1
