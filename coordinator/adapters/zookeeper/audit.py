"""The audit trail in ZooKeeper: one sequential node per change, written in the change's transaction.

So there is no change without an entry and no entry without its change, whatever fails in between. The
number comes from ZooKeeper's sequence, the time from the node's ctime: one clock for all sidecars.

The trail is a ring: every `TRIM_EVERY` changes the oldest entries above `AUDIT_LENGTH` are deleted, and
those of a tenant's admins above its share. That is best effort: a failure is logged, and the next trim
takes what this one left.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog
from kazoo.client import TransactionRequest
from kazoo.exceptions import NoNodeError

from coordinator.adapters.zookeeper.numbered import TRIM_EVERY, NumberedNodes
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.ports import AUDIT_LENGTH, AuditEntry, NotFound, Origin, PortError
from coordinator.wire.audit import State, decode_audit_entry, encode_audit_entry
from coordinator.wire.documents import DocumentError

_PREFIX = "entry-"

_log = structlog.get_logger(__name__)


class ZooKeeperAudit:
    """Writes and reads the trail of one store."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._directory = session.path("audit")
        self._nodes = NumberedNodes(session, self._directory, _PREFIX)

    async def prepare(self) -> None:
        """Create the directory of entries if it is missing; raises StoreUnreachable."""
        await self._session.call(lambda client: client.ensure_path_async(self._directory))

    def record(
        self, transaction: TransactionRequest, subject: str, before: State, after: State, by: Origin
    ) -> None:
        """Add an entry to the transaction of the change, as its last part."""
        document = encode_audit_entry(subject, before, after, by)
        transaction.create(self._nodes.beginning(by.tenant), document, sequence=True)

    async def recorded(self, results: list[Any]) -> None:
        """Take the results of a transaction whose last part was an entry; never raises PortError."""
        if self._nodes.number(results[-1]) % TRIM_EVERY:
            return
        try:
            await self._nodes.trim(AUDIT_LENGTH)
        except PortError as error:
            _log.warning("audit trail not trimmed", reason=str(error))

    async def entries(self, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        """Return the newest entries, newest first; raises StoreUnreachable."""
        names = await self._nodes.kept(AUDIT_LENGTH)
        wanted = [name for name in names if before is None or self._nodes.number(name) < before]
        found = await asyncio.gather(*map(self._read, reversed(wanted[-limit:])))
        return tuple(entry for entry in found if entry is not None)

    async def entry(self, entry_id: int) -> AuditEntry:
        """Return one entry; raises NotFound, StoreUnreachable."""
        names = await self._nodes.names()
        name = next((each for each in names if self._nodes.number(each) == entry_id), None)
        found = None if name is None else await self._read(name)
        if found is None:
            raise NotFound(f"there is no audit entry {entry_id}, or it cannot be read")
        return found

    async def _read(self, name: str) -> AuditEntry | None:
        path = self._nodes.path(name)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
            return decode_audit_entry(self._nodes.number(name), stat.ctime, data)
        except NoNodeError:
            return None
        except DocumentError as error:
            _log.error("audit entry unreadable", path=path, reason=str(error))
            return None
