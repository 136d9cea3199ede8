"""The ledgers of strict groups in memory: deterministic and complete, for tests and a single process.

Several sidecars can share one. Listeners are called before the write returns. A record that could not be
written to ZooKeeper is refused here too, by the same codec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordinator.core.model import LedgerRecord
from coordinator.ports import AlreadyExists, GroupStore, InUse, NotFound, VersionConflict
from coordinator.wire.documents import encode_ledger


class MemoryLedgers:
    """`coordinator.ports.LedgerStore` in memory, beside the store that has the groups."""

    def __init__(self, groups: GroupStore) -> None:
        self._groups = groups
        self._listeners: list[Callable[[tuple[LedgerRecord, ...]], None]] = []
        self._records: dict[str, LedgerRecord] = {}
        self._generation = 0

    def watch(self, listener: Callable[[tuple[LedgerRecord, ...]], None]) -> None:
        """See `LedgerStore`."""
        self._listeners.append(listener)
        listener(self._snapshot())

    async def write(self, record: LedgerRecord) -> LedgerRecord:
        """See `LedgerStore`."""
        encode_ledger(record)
        await self._groups.read_group(record.group)
        if record.version >= 0:
            known = self._find(record)
            written = replace(record, generation=known.generation, version=known.version + 1)
        elif record.group in self._records:
            raise AlreadyExists(f"there is a ledger of {record.group} already")
        else:
            self._generation += 1
            written = replace(record, generation=self._generation, version=0)
        self._records[record.group] = written
        self._tell()
        return written

    async def remove(self, record: LedgerRecord) -> None:
        """See `LedgerStore`."""
        self._find(record)
        try:
            await self._groups.read_group(record.group)
        except NotFound:
            del self._records[record.group]
            self._tell()
        else:
            raise InUse(f"there is a resource group {record.group}")

    def _find(self, record: LedgerRecord) -> LedgerRecord:
        known = self._records.get(record.group)
        if known is None:
            raise NotFound(f"there is no ledger of {record.group}")
        if known.version != record.version:
            raise VersionConflict(f"the ledger of {record.group} was changed meanwhile")
        return known

    def _tell(self) -> None:
        records = self._snapshot()
        for listener in tuple(self._listeners):
            listener(records)

    def _snapshot(self) -> tuple[LedgerRecord, ...]:
        return tuple(record for _, record in sorted(self._records.items()))
