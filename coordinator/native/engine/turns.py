"""Turns: a small limit is exact on average, although Pulsar's quotas are whole numbers.

A broker whose quota is q lets ``(I + 1) * q - 1`` messages pass in an interval of I seconds: the last one
is due as the interval ends, and the new bucket forgets it (measured on 4.2.4 and 5.0.0-M1: 23.1 of 24).
So a limit of n messages an interval needs a quota of ``x = (n + 1) / (I + 1)``, which is seldom whole. Of
25/s at each of two brokers, quotas of 12 let 46 pass in all.

Each interval is a *turn*. In each, the quota is the whole number below or above x, so that their mean is
x. The entry stands for half a quota more: the quota then stays the same when a float, or the sum of the
table, is a little off. A record needs room for that beyond ``kappa * C``. Brokers round at the same time,
so the sum of a turn can be above the limit by a message or two for each broker, never that of two turns.

A large limit loses less than two messages a second at each broker, and takes no turns.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.model import NANOS_PER_SECOND, Rate, Rates
from coordinator.native.engine.entries import Amounts, Record, capacity_of, record_of
from coordinator.native.engine.trim import MOST_PERMILLE, WHOLE

_SMALL: Final = 2_000
"""Messages of an interval, of a whole group, up to which quotas take turns."""

_ROOM_MOST: Final = 32
_ROOM_PART: Final = 5
"""A record has room for 32 more messages a second, or for a fifth of it where that is less."""


def takes_turns(limits: Rates, interval_s: int) -> bool:
    """Return whether the quotas of a group with these limits, of all brokers, take turns."""
    messages = limits.publish_messages
    return messages is not None and 0 < messages * interval_s <= _SMALL


def with_room(record: Record, limits: Rates, interval_s: int) -> Record:
    """Return a record of these limits with room for turns."""
    if not takes_turns(limits, interval_s):
        return record
    room = min(_ROOM_MOST, record.messages // _ROOM_PART)
    return record._replace(messages=record.messages + room)


def used(limits: Rates, brokers: int, interval_s: int) -> tuple[int | None, int | None]:
    """Return the most that all entries of a turn stand for, per second; None is unlimited.

    Args:
        limits: the limits of all brokers together, per second.
        brokers: how many they are.
        interval_s: interval of the topic.
    """
    messages, size = (
        None if capacity is None else capacity * MOST_PERMILLE // WHOLE
        for capacity in capacity_of(record_of(limits, interval_s), interval_s)
    )
    if messages is not None and takes_turns(limits, interval_s):
        more = brokers * (1 + interval_s + (interval_s + 1) // 2)
        messages += -(-more // interval_s)
    return messages, size


def whole_now(rate: Rate, interval_s: int, now_ns: int) -> int:
    """Return the whole number that stands for a rate in the present turn; their mean is the rate."""
    turn = now_ns // (interval_s * NANOS_PER_SECOND)
    return int((turn + 1) * rate // 1 - turn * rate // 1)


def in_turn(entry: Amounts, interval_s: int, now_ns: int) -> Amounts:
    """Return a broker's entry for the present turn, from that of its limits."""
    if entry.messages <= 0:
        return entry
    turn = now_ns // (interval_s * NANOS_PER_SECOND)
    divisor = interval_s + 1
    due = entry.messages + 1
    quota = (turn + 1) * due // divisor - turn * due // divisor
    return entry._replace(messages=quota * divisor + divisor // 2)
