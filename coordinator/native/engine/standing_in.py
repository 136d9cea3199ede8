"""The entries that a sidecar writes for brokers whose own sidecar does not write.

A broker that no sidecar writes for would starve. Its own report ``m`` is its row then, while the entries
of the others and the rest add up to the whole limit ``C``, so each of its quotas is at most
``C * m / (C + m)``, less than what it used: 200 of 600/s become 67 within six intervals, and the first
message per second of a broker that just begins never becomes more, as the rest takes what it leaves.
Simulated, a saturated broker of three passes 13 % of its part half a minute after its sidecar died.

*An orphan's* part has gone to the others already, and its demand is not known. It gets the mean of the
steered brokers' entries, and at most twice what it used and a little, so that a part which it does not
use stays with the others. Quotas add up to the record with any entries, so all brokers alike give up what
the orphan gets.

*A stalled broker* (table.py) has a sidecar that the membership still counts, so the others leave it its
part. Its last entry is repeated after each of its reports, or it gets an orphan's where that is more: of
a group that was made a moment ago its sidecar may not have known the demand. If it wrote none at all, the
broker gets the mean.

The sidecar of the first steered broker by name stands in. All know the same table, and if that one stops
to write as well, the next is the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from coordinator.native.engine.entries import NOTHING, Amounts
from coordinator.native.engine.table import Table

_GROWS_BY: Final = 2
_FIRST: Final = 16
"""A broker that begins may use this fraction of the mean at first; it is there after four doublings."""


def rows_to_stand_in_for(
    table: Table, own_url: str, own: Mapping[str, Amounts], interval_s: int, now_ns: int
) -> Iterator[tuple[str, dict[str, Amounts]]]:
    """Yield the rows of brokers that this sidecar stands in for.

    Args:
        table: every broker's rows.
        own_url: in whose name this sidecar's own entries are.
        own: its entries.
        interval_s: interval of the topic.
        now_ns: the time.
    """
    if not table.is_first(own_url, now_ns):
        return
    others = [name for name in table.steered(now_ns) if name != own_url]
    entries = {
        group: [entry, *(table.of(name, group) for name in others)] for group, entry in own.items()
    }
    for broker in tuple(table.orphans(interval_s, now_ns)):
        if broker != own_url:
            yield (
                broker,
                {
                    group: entry_of_orphan(table.reported(broker, group)[0], steered)
                    for group, steered in entries.items()
                },
            )
    for broker in tuple(table.stalled(interval_s, now_ns)):
        if broker != own_url:
            yield (
                broker,
                {
                    group: _of_stalled(
                        table.entry(broker, group), table.reported(broker, group)[0], steered
                    )
                    for group, steered in entries.items()
                },
            )


def entry_of_orphan(used: Amounts, entries: Sequence[Amounts]) -> Amounts:
    """Return the entry of an orphan in one native group.

    Args:
        used: its own last report, of an interval or a few.
        entries: of all brokers that have a sidecar.
    """
    messages, bytes_ = (
        min(mean, _GROWS_BY * used_here + mean // _FIRST) if used_here else 0
        for used_here, mean in zip(used, _mean(entries), strict=True)
    )
    return Amounts(messages, bytes_)


def _of_stalled(last: Amounts | None, used: Amounts, entries: Sequence[Amounts]) -> Amounts:
    if last is None:
        return _mean(entries)
    orphans = entry_of_orphan(used, entries)
    return Amounts(max(last.messages, orphans.messages), max(last.bytes, orphans.bytes))


def _mean(entries: Sequence[Amounts]) -> Amounts:
    """Return the mean of the entries, unit by unit; a broker without a part does not count."""
    if not entries:
        return NOTHING
    messages, bytes_ = (
        sum(parts) // len(parts) if (parts := [entry for entry in unit if entry]) else 0
        for unit in zip(*entries, strict=True)
    )
    return Amounts(messages, bytes_)
