"""Compare-and-set in ZooKeeper on a version that never returns, each change with its audit entry.

A record's version is its node's mzxid, the number of the transaction that wrote it. ZooKeeper itself can
only compare a node's own version, which starts again when a record is deleted and created anew: a writer
that read the old record could then overwrite the new one. Therefore every removal also rewrites the
(empty) content of the parent node, whose version so counts removals, and every write is one transaction
that checks both: *no sibling was removed since the read* and *the node is unchanged since the read*. A
removal of another sibling in between costs one more try.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kazoo.client import TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from coordinator.adapters.zookeeper.audit import ZooKeeperAudit
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.ports import Origin
from coordinator.wire.audit import State

#: How often other writers may win a race; each lost race is a change of another writer.
_MAX_TRIES = 64


@dataclass(frozen=True, slots=True)
class Found:
    """A node as it was read.

    Args:
        data: its content.
        node_version: ZooKeeper's own version of it.
        version: the record's, which never returns (mzxid).
        removals: the version of the parent node before that.
    """

    data: bytes
    node_version: int
    version: int
    removals: int


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A change as the audit trail tells it, with what else its transaction does.

    Args:
        before: the record's state; None where there is none, or none that can be read.
        after: the same.
        by: its author.
        also: adds further parts: after the record is written, before it is removed.
    """

    before: State
    after: State
    by: Origin
    also: Callable[[TransactionRequest], None] = lambda _: None


Describe = Callable[[Found], Awaitable[AuditedChange]]
"""A function that returns the change of a node as it was found; called anew after each lost race."""

Write = Callable[[Found, AuditedChange, TransactionRequest], None]


class VersionedNodes:
    """Reads and writes records by the protocol above.

    Every method raises StoreUnreachable, and kazoo's errors: NoNodeError, NodeExistsError, and
    BadVersionError where a record has another version than the expected one.
    """

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._audit = ZooKeeperAudit(session)

    async def read(self, path: str) -> tuple[bytes, int]:
        """Return content and version."""
        data, stat = await self._session.call(lambda client: client.get_async(path))
        return data, int(stat.mzxid)

    async def find(self, path: str) -> Found:
        """Return a node and, from before it was read, the number of removals beside it."""
        # In this order: a removal after the first answer makes the transaction fail.
        _, parent = await self._session.call(lambda client: client.get_async(_parent(path)))
        data, stat = await self._session.call(lambda client: client.get_async(path))
        return Found(data, stat.version, stat.mzxid, parent.version)

    async def create(self, path: str, subject: str, data: bytes, change: AuditedChange) -> int:
        """Create a record, and return its version.

        Args:
            path: of its node.
            subject: its name in the audit trail.
            data: its content.
            change: what it is; NoNodeError is of its further parts.
        """

        def write(transaction: TransactionRequest) -> None:
            transaction.create(path, data)
            # Only a change of content answers with the transaction's number, and that is the version.
            transaction.set_data(path, data, 0)
            change.also(transaction)
            self._record(transaction, subject, change)

        await self._session.call(lambda client: client.ensure_path_async(_parent(path)))
        await self._audit.prepare()
        results = await self._session.transact(write)
        await self._audit.recorded(results)
        return int(results[1].mzxid)

    async def replace(
        self, path: str, subject: str, data: bytes, version: int, describe: Describe
    ) -> int:
        """Replace a record that has this version, and return its new one."""

        def write(found: Found, change: AuditedChange, transaction: TransactionRequest) -> None:
            transaction.check(_parent(path), found.removals)
            transaction.set_data(path, data, found.node_version)
            change.also(transaction)
            self._record(transaction, subject, change)

        results = await self._compare_and_set(path, version, write, describe)
        return int(results[1].mzxid)

    async def remove(
        self, path: str, subject: str, version: int | None, describe: Describe
    ) -> None:
        """Remove a record, if a version is given only that one.

        Raises:
            NotEmptyError: there are nodes below it that the change does not remove.
        """

        def write(found: Found, change: AuditedChange, transaction: TransactionRequest) -> None:
            transaction.set_data(_parent(path), b"", found.removals)
            change.also(transaction)
            transaction.delete(path, found.node_version)
            self._record(transaction, subject, change)

        await self._compare_and_set(path, version, write, describe)

    async def _compare_and_set(
        self, path: str, version: int | None, write: Write, describe: Describe
    ) -> list[Any]:
        await self._audit.prepare()
        for _ in range(_MAX_TRIES):
            found = await self.find(path)
            if version is not None and found.version != version:
                break
            change = await describe(found)
            try:
                results = await self._session.transact(partial(write, found, change))
            except (BadVersionError, NoNodeError, NodeExistsError):
                continue
            await self._audit.recorded(results)
            return results
        raise BadVersionError

    def _record(self, transaction: TransactionRequest, subject: str, change: AuditedChange) -> None:
        self._audit.record(transaction, subject, change.before, change.after, change.by)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
