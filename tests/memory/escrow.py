"""The escrow records of strict groups in memory: deterministic and complete, for tests and one process.

Several sidecars can share one. Listeners are called before the write returns. A record that could not be
written to ZooKeeper is refused here too, by the same codec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordinator.core.model import EscrowRecord
from coordinator.ports import AlreadyExists, GroupStore, InUse, NotFound, VersionConflict
from coordinator.wire.documents import encode_escrow


class MemoryEscrow:
    """`coordinator.ports.EscrowStore` in memory, beside the store that has the groups."""

    def __init__(self, groups: GroupStore) -> None:
        self._groups = groups
        self._listeners: list[Callable[[tuple[EscrowRecord, ...]], None]] = []
        self._records: dict[str, EscrowRecord] = {}
        self._generation = 0

    def watch(self, listener: Callable[[tuple[EscrowRecord, ...]], None]) -> None:
        """See `EscrowStore`."""
        self._listeners.append(listener)
        listener(self._snapshot())

    async def write(self, record: EscrowRecord) -> EscrowRecord:
        """See `EscrowStore`."""
        encode_escrow(record)
        await self._groups.read_group(record.group)
        if record.version >= 0:
            known = self._find(record)
            written = replace(record, generation=known.generation, version=known.version + 1)
        elif record.group in self._records:
            raise AlreadyExists(f"there is an escrow record of {record.group} already")
        else:
            self._generation += 1
            written = replace(record, generation=self._generation, version=0)
        self._records[record.group] = written
        self._tell()
        return written

    async def remove(self, record: EscrowRecord) -> None:
        """See `EscrowStore`."""
        self._find(record)
        try:
            await self._groups.read_group(record.group)
        except NotFound:
            del self._records[record.group]
            self._tell()
        else:
            raise InUse(f"there is a resource group {record.group}")

    def _find(self, record: EscrowRecord) -> EscrowRecord:
        known = self._records.get(record.group)
        if known is None:
            raise NotFound(f"there is no escrow record of {record.group}")
        if known.version != record.version:
            raise VersionConflict(f"the escrow record of {record.group} was changed meanwhile")
        return known

    def _tell(self) -> None:
        records = self._snapshot()
        for listener in tuple(self._listeners):
            listener(records)

    def _snapshot(self) -> tuple[EscrowRecord, ...]:
        return tuple(record for _, record in sorted(self._records.items()))
