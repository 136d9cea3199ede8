"""The evictions that a broker's own check of backlog quotas has made, from its metrics (PIP-323).

The answer is parsed as it arrives and never held as a whole: with 10,000 topics it is some 50 MB. A line
that is longer than `_LONGEST_LINE`, as a client can make one by the name of a topic, is passed over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from coordinator.adapters.broker.metrics_text import Lines, label_pattern, labels_of, topic_in
from coordinator.backlog.rules.evictions import Counted
from coordinator.backlog.rules.model import QuotaType

_LINES: Final = Lines("pulsar_storage_backlog_quota_exceeded_evictions_total")
_LABEL: Final = label_pattern(("namespace", "topic", "partition", "quota_type"))
_TYPES: Final = {kind.value: kind for kind in QuotaType}
_LONGEST_LINE: Final = 64 * 1024


async def evictions_in(chunks: AsyncIterator[bytes]) -> Counted:
    """Return the counts by topic and type, or by namespace where topics are not told apart."""
    found: dict[tuple[str, QuotaType], int] = {}
    tail = b"\n"
    async for chunk in chunks:
        lines, separator, rest = (tail + chunk).rpartition(b"\n")
        _add(lines + separator, found)
        tail = separator + rest
        if len(tail) > _LONGEST_LINE:
            tail = b""  # the rest of the line has no beginning, and counts nothing
    _add(tail + b"\n", found)
    return found


def _add(lines: bytes, found: dict[tuple[str, QuotaType], int]) -> None:
    for _, labels, value in _LINES.find(lines):
        named = labels_of(labels, _LABEL)
        kind = _TYPES.get(named.get("quota_type", ""))
        name = topic_in(named) or named.get("namespace", "")
        if kind is not None and name:
            found[name, kind] = int(float(value))
