"""Operations in memory: complete, for tests and for a single process; several sidecars can share one."""

from __future__ import annotations

import time
from dataclasses import replace

from coordinator.insight.model.operations import Operation
from coordinator.insight.model.outside import OPERATIONS_LENGTH, RecordedOperation
from coordinator.ports import NotFound, surplus
from coordinator.wire.operations import decode_operation, encode_operation


class MemoryOperations:
    """`coordinator.ports.OperationStore` in memory."""

    def __init__(self) -> None:
        self._open: dict[int, RecordedOperation] = {}
        self._ended: list[RecordedOperation] = []
        self._next = 0

    async def open(self, operation: Operation) -> RecordedOperation:
        """See `OperationStore`."""
        at_ms = time.time_ns() // 1_000_000
        recorded = RecordedOperation(replace(operation, id=self._next), at_ms)
        # Through the codec, as in ZooKeeper: a document that cannot be read back must not be written.
        recorded = decode_operation(self._next, at_ms, encode_operation(recorded))
        self._next += 1
        self._open[recorded.operation.id] = recorded
        return recorded

    async def end(self, recorded: RecordedOperation) -> None:
        """See `OperationStore`."""
        found = self._open.pop(recorded.operation.id, None)
        if found is None:
            raise NotFound(f"operation {recorded.operation.id} is not open")
        document = encode_operation(recorded)
        self._ended.append(decode_operation(recorded.operation.id, None, document))
        for place in surplus([each.operation.tenant for each in self._ended], OPERATIONS_LENGTH):
            del self._ended[place]

    async def opened(self) -> tuple[RecordedOperation, ...]:
        """See `OperationStore`."""
        return tuple(recorded for _, recorded in sorted(self._open.items()))

    async def ended(self, limit: int) -> tuple[RecordedOperation, ...]:
        """See `OperationStore`."""
        newest = sorted(self._ended, key=lambda recorded: -recorded.operation.id)
        return tuple(newest[:limit])
