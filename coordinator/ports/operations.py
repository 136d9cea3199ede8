"""The durable record of changes on their way (coordinator.insight.model.operations)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from coordinator.insight.model.operations import Operation

OPERATIONS_LENGTH = 1_000
"""Ended operations that the store keeps; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class RecordedOperation:
    """An operation as it was written last, and when it was accepted.

    Args:
        operation: the operation.
        at_ms: when it was accepted, in milliseconds since 1970, by the store's own clock.
    """

    operation: Operation
    at_ms: int


class OperationStore(Protocol):
    """Operations, open ones and ended ones.

    Open ones are few and are listed as a whole; of the ended ones the last `OPERATIONS_LENGTH` are kept.
    """

    async def open(self, operation: Operation) -> RecordedOperation:
        """Record a change that was accepted; the store gives it its id.

        Raises:
            StoreUnreachable: the store did not answer.
        """
        ...

    async def end(self, recorded: RecordedOperation) -> None:
        """Record how an open one ended.

        Raises:
            NotFound: it is not open; another sidecar has ended it.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def opened(self) -> tuple[RecordedOperation, ...]:
        """All open ones, oldest first; raises StoreUnreachable."""
        ...

    async def ended(self, limit: int) -> tuple[RecordedOperation, ...]:
        """The newest ended ones, newest first; raises StoreUnreachable."""
        ...
