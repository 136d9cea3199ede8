"""Carry the core's instructions out: calls to the gate, the bus, the membership and the escrow.

Messages to others (a report, an escrow record, a farewell) wait until the limits that were set before are
in force at the gate. Slow work (joining and leaving the membership, draining the gate) runs as a task
whose outcome comes back as an event; a failure is logged and the core asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import assert_never

import structlog

from coordinator.app.reception import Reception
from coordinator.core.events import DrainCompleted, Event, MembershipJoined, SessionConfirmed
from coordinator.core.instructions import (
    ConfirmSession,
    DrainGate,
    HoldLease,
    Instruction,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    RemoveEscrow,
    RemoveLocalLimits,
    SetLocalLimits,
    WriteEscrow,
)
from coordinator.core.model import Dimension, EscrowRecord
from coordinator.core.state import CoordinatorState
from coordinator.ports import (
    EscrowStore,
    Membership,
    PortError,
    Recorder,
    ReportBus,
    TrafficGate,
)
from coordinator.runtime.supervision import TaskSupervisor

log = structlog.get_logger(__name__)


class InstructionExecutor:
    """Carries out the instructions of one core.

    Args:
        state: the core.
        gate: enforces the local limits.
        membership: the live sidecars.
        bus: usage reports.
        escrow: the records of the strict policy.
        recorder: keeps what was decided and reported; None is no recording.
        reception: signs the reports.
        supervisor: counts failures.
        api_address: host:port of the own admin API, told to the others.
        drain_timeout_s: the longest that draining may take.
        post: takes the events that tell an outcome.
        spawn: runs work beside the core.
    """

    def __init__(  # noqa: PLR0913  # one per part
        self,
        state: CoordinatorState,
        *,
        gate: TrafficGate,
        membership: Membership,
        bus: ReportBus,
        escrow: EscrowStore,
        recorder: Recorder | None,
        reception: Reception,
        supervisor: TaskSupervisor,
        api_address: str,
        drain_timeout_s: float,
        post: Callable[[Event], None],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._state = state
        self._gate = gate
        self._membership = membership
        self._bus = bus
        self._escrow = escrow
        self._recorder = recorder
        self._reception = reception
        self._supervisor = supervisor
        self._api_address = api_address
        #: Why it could not join; empty once it has.
        self._not_joined = ""
        self._drain_timeout_s = drain_timeout_s
        self._post = post
        self._spawn = spawn
        #: The last instruction to the gate about each group.
        self._enforced: dict[str, SetLocalLimits] = {}

    def enforce_only(self, wanted: Sequence[SetLocalLimits], now_ns: int) -> None:
        """Have the gate enforce these limits and no others, also where an instruction was lost."""
        for group in self._enforced.keys() - {each.group for each in wanted}:
            self.carry_out(RemoveLocalLimits(group), now_ns)
        for each in wanted:
            if self._enforced.get(each.group) != each:
                self.carry_out(each, now_ns)

    def carry_out(  # noqa: C901  # one row per instruction
        self, instruction: Instruction, now_ns: int
    ) -> None:
        """Carry one instruction out, or begin to."""
        match instruction:
            case SetLocalLimits(group, limits, leased):
                log.debug("limits set", group=group, limits=limits, leased=leased)
                self._gate.set_limits(group, limits, leased=leased)
                self._enforced[group] = instruction
                self._record_limits(group, now_ns)
            case RemoveLocalLimits(group):
                self._gate.remove_limits(group)
                self._enforced.pop(group, None)
            case HoldLease(until_ns):
                self._gate.hold_lease(until_ns)
            case ConfirmSession(asked_ns):
                self._attempt("session confirmation", partial(self._confirm_session, asked_ns))
            case PublishUsageReport(report):
                payload = self._reception.sign(report)
                if self._recorder is not None:
                    # Before it is sent, so that no answer to it can come earlier.
                    with self._supervisor.guard("recorder"):
                        self._recorder.report_sent(report, len(payload), now_ns)
                self._gate.when_in_force(partial(self._bus.publish, payload))
            case WriteEscrow(record):
                self._gate.when_in_force(
                    lambda: self._attempt(
                        "escrow", partial(self._change_escrow, record, remove=False)
                    )
                )
            case RemoveEscrow(record):
                self._gate.when_in_force(
                    lambda: self._attempt(
                        "escrow", partial(self._change_escrow, record, remove=True)
                    )
                )
            case JoinMembership():
                self._attempt("joining", self._join)
            case LeaveMembership():
                self._gate.when_in_force(lambda: self._attempt("leaving", self._leave))
            case DrainGate():
                self._spawn(self._drain_gate())
            case _:
                assert_never(instruction)

    def _record_limits(self, group: str, now_ns: int) -> None:
        if self._recorder is not None:
            decisions = self._state.decider.decisions
            of_group = {dimension: decisions[group, dimension] for dimension in Dimension}
            with self._supervisor.guard("recorder"):
                self._recorder.limits_set(group, of_group, now_ns)

    def _attempt(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do work once beside the core, which asks again if it fails."""

        async def attempt() -> None:
            with self._supervisor.guard(name):
                await work()

        self._spawn(attempt())

    async def _join(self) -> None:
        try:
            incarnation = await self._membership.join(
                self._state.settings.broker, self._api_address, self._reception.public_key
            )
        except PortError as error:  # the core asks again each round
            if str(error) != self._not_joined:
                log.warning("cannot join the membership yet", reason=str(error))
            self._not_joined = str(error)
            return
        self._not_joined = ""
        log.info("joined", incarnation=incarnation)
        self._post(MembershipJoined(incarnation))

    async def _confirm_session(self, asked_ns: int) -> None:
        try:
            confirmation = await self._membership.confirm()
        except PortError as error:  # the core goes on asking, and stops when its lease ends
            log.info("session not confirmed", reason=str(error))
            return
        connected_ns, timeout_ns = confirmation.connected_ns, confirmation.timeout_ns
        self._post(SessionConfirmed(asked_ns, connected_ns, timeout_ns))

    async def _change_escrow(self, record: EscrowRecord, *, remove: bool) -> None:
        try:
            if remove:
                await self._escrow.remove(record)
            else:
                await self._escrow.write(record)
        except PortError as error:  # the core asks again, if it still wants it
            log.info("escrow record not changed", group=record.group, reason=str(error))
            return
        dead = [f"{account.broker}@{account.incarnation}" for account in sorted(record.claimed)]
        log.info("escrow record changed", group=record.group, removed=remove, inherited_from=dead)

    async def _leave(self) -> None:
        try:
            await self._membership.leave()
        except PortError as error:
            log.warning("cannot leave the membership; the session's end will", reason=str(error))

    async def _drain_gate(self) -> None:
        await self._gate.drain(self._drain_timeout_s)
        self._post(DrainCompleted())
