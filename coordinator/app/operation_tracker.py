"""Follow changes until the cluster has settled on them, and record how they ended.

The sidecar that accepted a change follows it. Every `_ADOPT_S` the member with the lowest name adopts
open operations of sidecars that are no members any more; a restarted sidecar adopts its own. The time
of an adopted operation goes on from its acceptance, by this host's clock. The store lets only one sidecar
end an operation, so two that follow the same one by mistake do no harm.

At most `MAX_FOLLOWED` are followed at once; the oldest then ends as unsettled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from coordinator.core.model import NANOS_PER_MILLI
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.operations import (
    Followed,
    Holdings,
    Operation,
    OperationStage,
    advance,
    holdings,
    superseded,
)
from coordinator.insight.model.outside import OperationStore, RecordedOperation
from coordinator.ports import Clock, NotFound, PortError
from coordinator.runtime.supervision import TaskSupervisor

MAX_FOLLOWED = 1_000
_LOOK_S = 0.2
_ADOPT_S = 5.0

_log = structlog.get_logger(__name__)


class OperationTracker:
    """The operations that one sidecar follows; it is `admin_api.backend.OperationLog`.

    Args:
        state: the core.
        clock: monotonic time.
        store: where operations are recorded.
        record: keeps each of their stages for later analysis, without blocking or raising: takes the
            operation, its acceptance in milliseconds since 1970, and the time; None keeps none.
    """

    def __init__(
        self,
        state: CoordinatorState,
        clock: Clock,
        store: OperationStore,
        record: Callable[[Operation, int, int], None] | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._store = store
        self._record = record
        #: By id; the time of acceptance beside each, in milliseconds since 1970.
        self._followed: dict[int, tuple[Followed, int]] = {}
        #: Set while there is something to follow.
        self._busy = asyncio.Event()

    def holdings(self, group: str) -> Holdings:
        """Return the present local limits of a group's participants: to be called before the change."""
        return holdings(self._state, group)

    async def accept(self, operation: Operation) -> Operation | None:
        """Record and follow an accepted change.

        Returns:
            The operation with its id; None when it could not be recorded: the change stands all the
            same, and the audit trail has it.
        """
        operation = replace(operation, taker=self._state.settings.broker)
        begun_ns = self._clock.now_ns()
        try:
            recorded = await self._store.open(operation)
        except PortError as error:
            _log.warning("operation not recorded", group=operation.group, reason=str(error))
            return None
        self._supersede(recorded.operation)
        self._keep(Followed(recorded.operation, begun_ns), recorded.at_ms)
        return recorded.operation

    async def operations(self, limit: int) -> list[RecordedOperation]:
        """Return the newest operations, newest first, the own ones as they are now.

        Raises:
            StoreUnreachable: the store did not answer.
        """
        opened, ended = await asyncio.gather(self._store.opened(), self._store.ended(limit))
        found = {recorded.operation.id: recorded for recorded in (*opened, *ended)}
        for number, (followed, at_ms) in self._followed.items():
            if not found.get(number, _OPEN).operation.stage.is_final:
                found[number] = RecordedOperation(followed.operation, at_ms)
        return [found[number] for number in sorted(found, reverse=True)][:limit]

    async def run(self, supervisor: TaskSupervisor) -> None:
        """Follow for ever.

        Args:
            supervisor: runs each loop, and counts its failures.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(supervisor.keep("operations", self._keep_looking))
            tasks.create_task(supervisor.keep("adopted operations", self._keep_adopting))

    async def _keep_looking(self) -> None:
        while True:
            await self._busy.wait()
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def _keep_adopting(self) -> None:
        while True:
            await asyncio.sleep(_ADOPT_S)
            await self.adopt()

    async def look(self) -> None:
        """Update all followed operations, and record those that have ended."""
        now_ns = self._clock.now_ns()
        for number in list(self._followed):
            followed, at_ms = self._followed[number]
            self._keep(advance(followed, self._state, now_ns), at_ms)
            await asyncio.sleep(0)  # rounds are closed on this loop, too
        for number in list(self._followed)[:-MAX_FOLLOWED]:
            followed, at_ms = self._followed[number]
            given_up = replace(followed.operation, stage=OperationStage.UNSETTLED)
            self._keep(replace(followed, operation=given_up), at_ms)
        for number, (followed, at_ms) in list(self._followed.items()):
            if followed.operation.stage.is_final:
                await self._end(number, RecordedOperation(followed.operation, at_ms))
        if not self._followed:
            self._busy.clear()

    async def adopt(self) -> None:
        """Adopt the operations of departed sidecars, if it is this one's turn."""
        members, own = self._state.members, self._state.settings.broker
        try:
            opened = await self._store.opened()
        except PortError:
            return  # the next look tries again
        for recorded in opened:
            operation = recorded.operation
            orphaned = operation.taker not in members and min(members, default=None) == own
            if operation.id in self._followed or not (orphaned or operation.taker == own):
                continue
            waited_ms = max(0, time.time_ns() // NANOS_PER_MILLI - recorded.at_ms)
            begun_ns = self._clock.now_ns() - waited_ms * NANOS_PER_MILLI
            self._keep(Followed(operation, begun_ns), recorded.at_ms)
            _log.info("operation adopted", id=operation.id, taker=operation.taker)

    def _supersede(self, later: Operation) -> None:
        now_ns = self._clock.now_ns()
        for followed, at_ms in list(self._followed.values()):
            earlier = followed.operation
            if earlier.group == later.group and not earlier.stage.is_final:
                self._keep(superseded(followed, self._state, now_ns), at_ms)

    def _keep(self, followed: Followed, at_ms: int) -> None:
        """Keep the operation's new state; record a new stage."""
        operation = followed.operation
        before = self._followed.get(operation.id)
        self._followed[operation.id] = (followed, at_ms)
        self._busy.set()
        new = before is None or before[0].operation.stage is not operation.stage
        if new and self._record is not None:
            self._record(operation, at_ms, self._clock.now_ns())

    async def _end(self, number: int, recorded: RecordedOperation) -> None:
        try:
            await self._store.end(recorded)
        except NotFound:
            _log.debug("operation ended by another", id=number)
        except PortError:
            return  # the next look tries again
        self._followed.pop(number, None)


_OPEN = RecordedOperation(Operation(-1, "", 0, "", "", "", ""), 0)
