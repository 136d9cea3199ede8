"""The formula: from local limits to entries and records, and to the quotas that brokers compute.

Invariants, for a table whose entries and rest sum up to ``capacity * I`` and a record of ``kappa *
capacity``:

* each broker's quota is ``kappa`` times its limit in force, less what flooring takes (below 1/s);
* all quotas together are at most the record with any entries, but for Pulsar's floor of 1/s each.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coordinator.core.model import Rates

UNLIMITED: Final = -1
"""Pulsar's value of an unlimited rate."""

MESSAGES_MAX: Final = 2**31 - 1
"""Pulsar keeps a record's messages in a Java int, its bytes in a long."""

BYTES_MAX: Final = 2**63 - 1


class Amounts(NamedTuple):
    """Messages and bytes: of an interval in an entry, of a second everywhere else."""

    messages: int = 0
    bytes: int = 0


class Record(NamedTuple):
    """A resource group's publish limits in Pulsar, per second; -1 is unlimited."""

    messages: int = UNLIMITED
    bytes: int = UNLIMITED


NOTHING: Final = Amounts()


def record_of(limits: Rates, interval_s: int) -> Record:
    """Return the record for limits of the whole cluster: ``kappa`` times them.

    Never 0, which Pulsar's limiter takes for no limit; so 1/s per broker is the least it can hold.
    """
    return Record(
        _part(limits.publish_messages, interval_s, MESSAGES_MAX),
        _part(limits.publish_bytes, interval_s, BYTES_MAX),
    )


def capacity_of(record: Record, interval_s: int) -> tuple[int | None, int | None]:
    """Return the publish rates that a record allows all brokers together; None is unlimited."""
    return _whole(record.messages, interval_s), _whole(record.bytes, interval_s)


def entry_of(limits: Amounts, interval_s: int) -> Amounts:
    """Return a broker's entry for its publish rates per second."""
    return Amounts(limits.messages * interval_s, limits.bytes * interval_s)


def rises(seen: Record, wanted: Record) -> bool:
    """Return whether a record has to let more pass in any unit."""
    return any(
        before != UNLIMITED and (after == UNLIMITED or after > before)
        for before, after in zip(seen, wanted, strict=True)
    )


def _part(limit: int | None, interval_s: int, most: int) -> int:
    if limit is None:
        return UNLIMITED
    return min(most, max(1, limit * interval_s // (interval_s + 1)))


def _whole(rate: int, interval_s: int) -> int | None:
    return None if rate < 0 else -(-rate * (interval_s + 1) // interval_s)
