"""Connections have bounds, and those that ask nothing delay no other."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.app.http.seats import Full, Seats


def test_a_newcomer_takes_the_seat_of_who_has_waited_longest_from_his_host() -> None:
    """Other hosts' seats are left alone."""
    seats = Seats[str](total=10, per_host=2)
    assert [seats.take(name, "a") for name in ("a1", "a2")] == [None, None]
    assert seats.take("b1", "b") is None
    assert seats.take("a3", "a") == "a1"
    seats.asks("a2")
    assert seats.take("a4", "a") == "a3"
    assert len(seats) == 3


def test_who_asks_keeps_his_seat() -> None:
    """Where all of a host do, its newcomer is turned away, and nothing changes."""
    seats = Seats[str](total=10, per_host=2)
    for name in ("a1", "a2"):
        seats.take(name, "a")
        seats.asks(name)
    with pytest.raises(Full, match="2 connections of a have requests under way"):
        seats.take("a3", "a")
    assert seats.take("b1", "b") is None
    seats.waits("a2")
    assert seats.take("a3", "a") == "a2"


def test_the_total_is_bounded_over_all_hosts() -> None:
    """By the caller that has waited longest."""
    seats = Seats[str](total=2, per_host=2)
    seats.take("a", "a")
    seats.take("b", "b")
    seats.asks("a")
    assert seats.take("c", "c") == "b"
    seats.asks("c")
    with pytest.raises(Full, match="2 connections have requests under way"):
        seats.take("d", "d")
    seats.leave("a")
    assert seats.take("d", "d") is None


@given(st.randoms())
@settings(max_examples=20)
def test_bounds_hold_and_nothing_is_left_whatever_happens(random: Random) -> None:
    """Random comings and goings, also of who has left before."""
    seats = Seats[int](total=8, per_host=3)
    seated: dict[int, str] = {}
    for number in range(500):
        host = random.choice("abcde")
        move = random.randrange(4)
        some = random.randrange(number + 1)
        if move == 0:
            try:
                leaves = seats.take(number, host)
            except Full:
                continue
            if leaves is not None:
                del seated[leaves]
            seated[number] = host
        elif move == 1:
            seats.asks(some)
        elif move == 2:
            seats.waits(some)
        else:
            seats.leave(some)
            seated.pop(some, None)
        assert len(seats) == len(seated) <= 8
        assert all(list(seated.values()).count(each) <= 3 for each in "abcde")
    for each in list(seated):
        seats.leave(each)
    assert not any((seats._hosts, seats._taken, seats._waiting, seats._waiting_of))
