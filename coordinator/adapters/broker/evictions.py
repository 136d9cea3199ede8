"""The evictions that a broker's own check of backlog quotas has made, from its metrics (PIP-323).

With 10,000 topics the answer is some 50 MB.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from coordinator.adapters.broker.metrics_text import (
    Lines,
    label_pattern,
    labels_of,
    topic_in,
    whole_lines,
)
from coordinator.backlog.rules.evictions import Counted
from coordinator.backlog.rules.model import QuotaType

_LINES: Final = Lines("pulsar_storage_backlog_quota_exceeded_evictions_total")
_LABEL: Final = label_pattern(("namespace", "topic", "partition", "quota_type"))
_TYPES: Final = {kind.value: kind for kind in QuotaType}


async def evictions_in(chunks: AsyncIterator[bytes]) -> Counted:
    """Return the counts by topic and type, or by namespace where topics are not told apart."""
    found: dict[tuple[str, QuotaType], int] = {}
    async for lines in whole_lines(chunks):
        _add(b"\n%b\n" % lines, found)
    return found


def _add(lines: bytes, found: dict[tuple[str, QuotaType], int]) -> None:
    for _, labels, value in _LINES.find(lines):
        named = labels_of(labels, _LABEL)
        kind = _TYPES.get(named.get("quota_type", ""))
        name = topic_in(named) or named.get("namespace", "")
        if kind is not None and name:
            found[name, kind] = int(float(value))
