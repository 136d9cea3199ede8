"""Operations in ZooKeeper: ``operations/open/<number>``, then ``operations/ended/<number>``.

The number is ZooKeeper's sequence in ``open``. One transaction ends an operation: it removes the open
node and creates the ended one, so of two sidecars that both follow it, one ends it and the other gets
NotFound. Every `TRIM_EVERY` numbers the oldest ended ones above `OPERATIONS_LENGTH`, and those of a
tenant's admins above its share, are deleted; a failure of that is logged, and the next trim takes what
this one left.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog
from kazoo.client import TransactionRequest
from kazoo.exceptions import NodeExistsError, NoNodeError

from coordinator.adapters.zookeeper.numbered import TRIM_EVERY, NumberedNodes
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.insight.model.operations import Operation
from coordinator.insight.model.outside import OPERATIONS_LENGTH, RecordedOperation
from coordinator.ports import NotFound, PortError
from coordinator.wire.documents import DocumentError
from coordinator.wire.operations import decode_operation, encode_operation

_PREFIX = "op-"

_log = structlog.get_logger(__name__)


class ZooKeeperOperations:
    """`coordinator.ports.OperationStore` on ZooKeeper."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._open = session.path("operations", "open")
        self._ended = session.path("operations", "ended")
        self._opened_nodes = NumberedNodes(session, self._open, _PREFIX)
        self._ended_nodes = NumberedNodes(session, self._ended, _PREFIX)

    async def open(self, operation: Operation) -> RecordedOperation:
        """See `OperationStore`."""
        data = encode_operation(RecordedOperation(operation, 0))
        await self._session.call(lambda client: client.ensure_path_async(self._open))
        path, stat = await self._session.call(
            lambda client: client.create_async(
                self._opened_nodes.beginning(operation.tenant),
                data,
                sequence=True,
                include_data=True,
            )
        )
        number = self._opened_nodes.number(path)
        if number % TRIM_EVERY == 0:
            await self._trim()
        return RecordedOperation(replace(operation, id=number), stat.ctime)

    async def end(self, recorded: RecordedOperation) -> None:
        """See `OperationStore`."""
        name = self._opened_nodes.name(recorded.operation.id, recorded.operation.tenant)
        data = encode_operation(recorded)

        def write(transaction: TransactionRequest) -> None:
            transaction.delete(self._opened_nodes.path(name))
            transaction.create(self._ended_nodes.path(name), data)

        await self._session.call(lambda client: client.ensure_path_async(self._ended))
        try:
            await self._session.transact(write)
        except (NoNodeError, NodeExistsError) as error:
            raise NotFound(f"operation {recorded.operation.id} is not open") from error

    async def opened(self) -> tuple[RecordedOperation, ...]:
        """See `OperationStore`."""
        names = await self._opened_nodes.names()
        found = await asyncio.gather(*(self._read(self._opened_nodes, name) for name in names))
        return tuple(recorded for recorded in found if recorded is not None)

    async def ended(self, limit: int) -> tuple[RecordedOperation, ...]:
        """See `OperationStore`."""
        names = (await self._ended_nodes.names())[-limit:]
        newest = reversed(names)
        found = await asyncio.gather(*(self._read(self._ended_nodes, name) for name in newest))
        return tuple(recorded for recorded in found if recorded is not None)

    async def _read(self, nodes: NumberedNodes, name: str) -> RecordedOperation | None:
        path = nodes.path(name)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
            at_ms = stat.ctime if nodes is self._opened_nodes else None
            return decode_operation(nodes.number(name), at_ms, data)
        except NoNodeError:
            return None
        except DocumentError as error:
            _log.error("operation unreadable", path=path, reason=str(error))
            return None

    async def _trim(self) -> None:
        try:
            await self._ended_nodes.trim(OPERATIONS_LENGTH)
        except PortError as error:
            _log.warning("operations not trimmed", reason=str(error))
