"""The durable escrow records of strict groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coordinator.core.model import EscrowRecord


class EscrowStore(Protocol):
    """The escrow records of the groups that are strict, or were (coordinator.core.escrow).

    A record is created only for a group that there is, and removed only when the group is gone.
    """

    def watch(self, listener: Callable[[tuple[EscrowRecord, ...]], None]) -> None:
        """Call the listener with all records, sorted by group, now and after every change."""

    async def write(self, record: EscrowRecord) -> EscrowRecord:
        """Replace a record if it still has this one's version; create it if that is negative.

        The store counts versions, and generations: a record that is created gets a higher one than
        any before.

        Raises:
            NotFound: there is no such group, or no record to replace.
            AlreadyExists: there is a record to be created already.
            VersionConflict: the record has another version.
            StoreUnreachable: the store did not answer.
            ValueError: no reader could understand such a record.
        """

    async def remove(self, record: EscrowRecord) -> None:
        """Remove the record of a group that is gone, if it still has this one's version.

        Raises:
            NotFound: there is no such record.
            InUse: there is such a group again.
            VersionConflict: the record has another version.
            StoreUnreachable: the store did not answer.
        """
