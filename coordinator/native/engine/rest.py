"""The rest: the room in a record beyond all entries, kept in a name of its own.

Quotas add up to the record, so entries that sum up to less would be scaled up; the rest takes their
difference. In true units a rest that outlives its writers only leaves the sum as it was. Entries that sum
up to more, as with an orphan's on top, share the record, and each quota is *scaled* down. The pacer is
told that: otherwise one of two brokers beside an orphan seemed to want less, and passed 79 % of its part
for a second or two, by the simulation.
"""

from __future__ import annotations

from typing import Final

from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.trim import WHOLE

_LITTLE: Final = 1000
"""A rest below a thousandth of the capacity is rounding, and none."""


def rest(capacity: int | None, wanted: int | None, entries: int, interval_s: int) -> int:
    """Return the rest that keeps all quotas at the entries, or at the target where entries are more.

    Args:
        capacity: capacity of the present record, per second.
        wanted: capacity of the lowest record under which the limits can be reached.
        entries: sum of all brokers' entries, of an interval.
        interval_s: interval of the topic.
    """
    if capacity is None or wanted is None:
        return 0
    total = capacity * interval_s
    if entries > wanted * interval_s:
        total = total * entries // max(1, wanted * interval_s)
    left = total - entries
    return left if left * _LITTLE > total else 0


def scale(capacity: int | None, entries: int, interval_s: int) -> int:
    """Return how much of each entry its quota is, in thousandths, where they are more than the record.

    Args:
        capacity: what the record allows all brokers together, per second; None is unlimited.
        entries: sum of all entries and the rest, of an interval.
        interval_s: interval of the topic.
    """
    if capacity is None or entries <= capacity * interval_s:
        return WHOLE
    return capacity * interval_s * WHOLE // entries


def differ(wanted: Amounts, seen: Amounts) -> bool:
    """Return whether a rest has to be written anew."""
    return any(
        abs(should_be - is_now) * _LITTLE > max(should_be, is_now)
        for should_be, is_now in zip(wanted, seen, strict=True)
    )
