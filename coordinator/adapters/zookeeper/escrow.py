"""The escrow records of strict groups in ZooKeeper, one node ``escrow/<group>`` each.

A record's version is its node's, its generation the node's czxid: the number of the transaction that
created it, higher than any before, also across delete and re-create. Transactions keep records and
groups together: a record is created together with a check that its group exists, and removed together
with the creation and deletion of a group of that name, which fails while there is one.

A record that cannot be read is logged and left out: no sidecar follows it, so its group stays as it is
until an operator repairs or removes the node.
"""

from __future__ import annotations

import structlog
from kazoo.client import TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from coordinator.adapters.zookeeper.mirror import Node
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.watched import WatchedRecords
from coordinator.core.model import EscrowRecord
from coordinator.ports import AlreadyExists, InUse, NotFound, VersionConflict
from coordinator.wire.documents import (
    DocumentError,
    decode_escrow,
    encode_escrow,
    validate_name,
)

_log = structlog.get_logger(__name__)


class ZooKeeperEscrow(WatchedRecords[tuple[EscrowRecord, ...]]):
    """`coordinator.ports.EscrowStore` on ZooKeeper; the records are sorted by group."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._directory = session.path("escrow")
        self._records: dict[str, EscrowRecord] = {}
        super().__init__(session, "escrow", {self._directory: 1})

    async def write(self, record: EscrowRecord) -> EscrowRecord:
        """See `EscrowStore`."""
        path, data = self._path(record), encode_escrow(record)
        if record.version < 0:
            await self._create(path, record.group, data)
        else:
            await self._replace(path, record, data)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
        except NoNodeError as error:
            raise NotFound(f"the escrow record of {record.group} was removed meanwhile") from error
        return decode_escrow(record.group, data, stat.czxid, stat.version)

    async def remove(self, record: EscrowRecord) -> None:
        """See `EscrowStore`."""
        path, group = self._path(record), self._group_path(record.group)

        def write(transaction: TransactionRequest) -> None:
            transaction.delete(path, record.version)
            transaction.create(group)  # fails while the group exists
            transaction.delete(group)

        try:
            await self._session.transact(write)
        except NoNodeError as error:
            raise NotFound(f"there is no escrow record of {record.group}") from error
        except BadVersionError as error:
            raise _changed(record) from error
        except NodeExistsError as error:
            raise InUse(f"there is a resource group {record.group}") from error

    async def _create(self, path: str, group: str, data: bytes) -> None:
        def write(transaction: TransactionRequest) -> None:
            transaction.check(self._group_path(group), -1)
            transaction.create(path, data)

        await self._session.call(lambda client: client.ensure_path_async(self._directory))
        try:
            await self._session.transact(write)
        except NoNodeError as error:
            raise NotFound(f"there is no resource group {group}") from error
        except NodeExistsError as error:
            raise AlreadyExists(f"there is an escrow record of {group} already") from error

    async def _replace(self, path: str, record: EscrowRecord, data: bytes) -> None:
        def write(transaction: TransactionRequest) -> None:
            transaction.check(self._group_path(record.group), -1)
            transaction.set_data(path, data, record.version)

        try:
            await self._session.transact(write)
        except NoNodeError as error:
            raise NotFound(f"there is no escrow record, or no group, {record.group}") from error
        except BadVersionError as error:
            raise _changed(record) from error

    def _path(self, record: EscrowRecord) -> str:
        return f"{self._directory}/{validate_name(record.group)}"

    def _group_path(self, group: str) -> str:
        return self._session.path("groups", group)

    def _apply(self, path: str, node: Node | None) -> None:
        group = path.rpartition("/")[2]
        self._records.pop(group, None)
        if node is None:
            return
        try:
            self._records[group] = decode_escrow(group, node.data, node.created_zxid, node.version)
        except DocumentError as error:
            _log.error("escrow record unreadable", path=path, reason=node.refusal or str(error))

    def _snapshot(self) -> tuple[EscrowRecord, ...]:
        return tuple(record for _, record in sorted(self._records.items()))


def _changed(record: EscrowRecord) -> VersionConflict:
    return VersionConflict(f"the escrow record of {record.group} was changed meanwhile")
