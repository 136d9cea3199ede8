"""The entry for an orphan: a broker that lives, and whose sidecar does not.

Left alone it would starve. Its own report ``m`` is its row then, while the entries of the others add up
to the whole limit ``C``, so each of its quotas is ``C * m / (C + m)``, less than what it used: 200 of
600/s become 67 within six intervals, and a joiner's first message per second never becomes more.

So another sidecar writes its row: the mean of the steered brokers' entries, as its demand is not known,
and at most twice what it used and a little, so that a part which it does not use stays with the others.
Quotas add up to the record with any entries, so all brokers alike give up what the orphan gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coordinator.native.engine.entries import Amounts

_GROWS_BY: Final = 2
_FIRST: Final = 16
"""A broker that begins may use this fraction of the mean at first; it is there after four doublings."""


def entry_of_orphan(used: Amounts, entries: Sequence[Amounts]) -> Amounts:
    """Return the entry of an orphan in one native group.

    Args:
        used: its own last report, of an interval or a few.
        entries: of all brokers that have a sidecar.
    """
    messages, bytes_ = (
        _part(used_here, [entry for entry in unit if entry])
        for used_here, unit in zip(used, zip(*entries, strict=True), strict=True)
    )
    return Amounts(messages, bytes_)


def _part(used: int, entries: Sequence[int]) -> int:
    if not used or not entries:
        return 0
    mean = sum(entries) // len(entries)
    return min(mean, _GROWS_BY * used + mean // _FIRST)
