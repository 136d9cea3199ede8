"""The shell around the core: it brings what happens as events and carries instructions out, in order.

Everything runs on one event loop's thread, the *coordinator's loop*. Whoever has news calls ``post``;
events are handled one after the other, never one inside the other, and the instructions of one event are
carried out before the next event is looked at. What others learn of it (a report, a ledger, a farewell)
waits until the limits that were set before are in force at the gate. What takes time (joining and leaving
the membership, draining the gate) runs as a task whose outcome comes back as an event; a failure is
logged and the core asks again.

Whatever else lives on that loop (looks at groups and backlogs, what requests ask of the state) goes in
small steps with turns in between. Traffic does not wait for it, being in another process; but counts do,
which are to come every `COLLECTED_EVERY_S`, and with them rounds and urgent reports. With a coordinator
that is silent for a second even its gate stands still (coordinator.gate_process).

The bus carries bytes from anybody: what is not a usage report is counted, logged once per reason, and
dropped. What happened is told by the watch's journal and the recorder; no event is kept for it, since a
report is as large as there are groups.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import assert_never

import structlog

from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    ConnectionState,
    DrainCompleted,
    DrainRequested,
    Event,
    GroupsChanged,
    LedgersChanged,
    MembersChanged,
    MembershipJoined,
    ParticipantsChanged,
    SessionConfirmed,
    TrafficCounted,
    UsageReportReceived,
)
from coordinator.core.instructions import (
    ConfirmSession,
    DrainGate,
    HoldLease,
    Instruction,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    RemoveLedger,
    RemoveLocalLimits,
    SetLocalLimits,
    WriteLedger,
)
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    LedgerRecord,
    Member,
    MonitoringClass,
)
from coordinator.core.state import CoordinatorState
from coordinator.ports import (
    COLLECTED_EVERY_S,
    COLLECTED_QUIETLY_EVERY_S,
    COLLECTED_QUIETLY_OF_SESSION,
    BrokerAdmin,
    Catalogue,
    Clock,
    GateGone,
    GroupStore,
    LedgerStore,
    Membership,
    PortError,
    Recorder,
    ReportBus,
    TrafficGate,
)
from coordinator.views import SidecarViews
from coordinator.watch import Watch
from coordinator.wire import reports
from coordinator.wire.intake import Intake, Received
from coordinator.wire.seal import Seal

_BROKER_CHECK_S = 1.0
_BROKER_FAILURES = 3

log = structlog.get_logger(__name__)


class Runner:
    """Runs one core.

    Args:
        state: the core.
        clock: monotonic time.
        store: groups and attachments.
        membership: who is alive.
        bus: usage reports.
        broker: the own broker's admin REST.
        api_address: host:port of the own admin API, told to the others.
        drain_timeout_s: how long draining may take.
    """

    def __init__(
        self,
        state: CoordinatorState,
        *,
        clock: Clock,
        store: GroupStore,
        membership: Membership,
        bus: ReportBus,
        broker: BrokerAdmin,
        api_address: str,
        drain_timeout_s: float,
    ) -> None:
        self._state = state
        self._clock = clock
        self._store = store
        self._membership = membership
        self._bus = bus
        self._broker = broker
        self._api_address = api_address
        self._drain_timeout_s = drain_timeout_s
        self._recorder: Recorder | None = None
        self._gate: TrafficGate | None = None
        self._ledgers: LedgerStore | None = None
        self._events: deque[Event] = deque()
        #: Set when something passes again, or there is something to do: else counts are collected seldom.
        self._counts_wanted = asyncio.Event()
        self._collected_quietly_every_s = min(
            COLLECTED_QUIETLY_EVERY_S,
            COLLECTED_QUIETLY_OF_SESSION * state.settings.session_timeout_ns / NANOS_PER_SECOND,
        )
        self._handling = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._intake = Intake()
        #: The last own report, which comes back like everybody's.
        self._published = b""
        #: What seals reports and opens them; may be another one any time, as keys change.
        self.seal = Seal()
        #: How everything is right now.
        self.views = SidecarViews(state, clock, self._intake)
        #: What happened, and how every group stands.
        self.watch = Watch(state, clock)
        #: Set when the catalogue was read for the first time: from then on limits are known.
        self.informed = asyncio.Event()
        #: Set when the core has stopped.
        self.stopped = asyncio.Event()

    # The world's news.

    def start(
        self, gate: TrafficGate, ledgers: LedgerStore, recorder: Recorder | None = None
    ) -> None:
        """Connect everything; events flow from now on, and are recorded if there is a recorder."""
        self._gate = gate
        self._ledgers = ledgers
        self._recorder = self.views.recorder = recorder
        gate.watch_traffic(self._counts_wanted.set)
        self._membership.watch_connection(self._connection_changed)
        self._membership.watch_members(self._members_changed)
        ledgers.watch(self._ledgers_changed)
        self._store.watch(self._catalogue_changed)
        self._bus.watch(self._payload_arrived)
        self.spawn(self._tick())
        self.spawn(self._watch_broker())
        self.spawn(self.watch.run())

    def post(self, event: Event) -> None:
        """Hand an event to the core; returns when it and all that followed from it is handled."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                self._handle(self._events.popleft())
        finally:
            self._handling = False

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, participants: int
    ) -> None:
        """The gate's news: the first participant of a group appeared, or the last one left.

        Handled in the loop's next turn: what follows from it is told to the gate, and whoever brings
        its news is in the middle of something.
        """
        event = ParticipantsChanged(group, monitoring_class, participants)
        asyncio.get_running_loop().call_soon(self.post, event)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run work beside the core; when it fails, the sidecar stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    async def drain(self) -> None:
        """Leave, drain the gate and stop."""
        self.post(DrainRequested())
        await self.stopped.wait()

    async def close(self) -> None:
        """End all tasks."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # From the world to events.

    def _connection_changed(self, state: ConnectionState) -> None:
        self.views.connection_changed(state)
        self.post(ConnectionChanged(state))

    def _members_changed(self, members: tuple[Member, ...]) -> None:
        log.info("members changed", members=[member.broker for member in members])
        self.post(MembersChanged(members))

    def _catalogue_changed(self, catalogue: Catalogue) -> None:
        self.views.catalogue_changed(catalogue)
        # Groups first: a namespace that is attached to a new group must find its limits set.
        self.post(GroupsChanged(tuple(entry.group for entry in catalogue.groups.values())))
        assert self._gate is not None
        self._gate.set_attachments(catalogue.attachments)
        self.informed.set()
        for received in self._intake.set_groups(entry.group for entry in catalogue.groups.values()):
            self._report_received(received)

    def _ledgers_changed(self, records: tuple[LedgerRecord, ...]) -> None:
        self.post(LedgersChanged(records))

    def _payload_arrived(self, payload: bytes) -> None:
        if payload == self._published and self._recorder is None:
            return  # the core took it in when it was sent
        try:
            self.seal.check(payload)
            received = self._intake.read(payload)
        except reports.BadReport as error:
            reason = str(error).partition(":")[0]
            if self.views.payload_dropped(reason):
                log.warning("not a usage report", reason=str(error), size=len(payload))
            return
        if received is not None:
            self._report_received(received)

    def _report_received(self, received: Received) -> None:
        if self._recorder is not None:
            self._recorder.report_received(received.report, received.size, self._clock.now_ns())
        self.post(UsageReportReceived(received.report))

    async def _tick(self) -> None:
        assert self._gate is not None
        quiet = False
        while True:
            await self._until_counts_are_due(quiet=quiet)
            counted = await self._gate.collect()
            self.views.traffic_counted(self._state.observer.mirror(counted))
            self.post(TrafficCounted(counted))
            self._counts_wanted.clear()
            quiet = all(traffic.is_quiet for traffic in counted)

    async def _until_counts_are_due(self, *, quiet: bool) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + COLLECTED_EVERY_S
        if quiet:
            rests_s = self._state.rests_ns(self._clock.now_ns()) / NANOS_PER_SECOND
            with suppress(TimeoutError):
                async with asyncio.timeout(min(rests_s, self._collected_quietly_every_s)):
                    await self._counts_wanted.wait()
        await asyncio.sleep(due_s - loop.time())

    async def _watch_broker(self) -> None:
        answering, failures = False, 0
        while True:
            if await self._broker.is_answering():
                failures = 0
                if not answering:
                    answering = True
                    self.post(BrokerAvailabilityChanged(answering=True))
            else:
                failures += 1
                if answering and failures >= _BROKER_FAILURES:
                    answering = False
                    self.post(BrokerAvailabilityChanged(answering=False))
            await asyncio.sleep(_BROKER_CHECK_S)

    # From instructions to the world.

    def _handle(self, event: Event) -> None:
        now_ns = self._clock.now_ns()
        before = (self._state.lifecycle, self._state.troubles.all())
        instructions = self._state.handle(event, now_ns)
        if (self._state.lifecycle, self._state.troubles.all()) != before:
            log.info(
                "state changed",
                before=before[0].value,
                after=self._state.lifecycle.value,
                troubles=[trouble.value for trouble in self._state.troubles.all()],
            )
        for instruction in instructions:
            self._carry_out(instruction, now_ns)
        self.watch.handled(event)
        if self._recorder is not None:
            self._recorder.handled(event, self._state, now_ns)
        if not self._state.rests_ns(now_ns):
            self._counts_wanted.set()
        if self._state.lifecycle is Lifecycle.STOPPED:
            self.stopped.set()

    def _carry_out(  # noqa: C901  # one row per instruction
        self, instruction: Instruction, now_ns: int
    ) -> None:
        assert self._gate is not None
        match instruction:
            case SetLocalLimits(group, limits, leased):
                log.debug("limits set", group=group, limits=limits, leased=leased)
                self._gate.set_limits(group, limits, leased=leased)
                self._record_limits(group, now_ns)
            case RemoveLocalLimits(group):
                self._gate.remove_limits(group)
            case HoldLease(until_ns):
                self._gate.hold_lease(until_ns)
            case ConfirmSession(asked_ns):
                self.spawn(self._confirm_session(asked_ns))
            case PublishUsageReport(report):
                payload = self._published = self.seal.close(reports.encode(report))
                if self._recorder is not None:
                    # Before it is sent: nobody may seem to have received it earlier.
                    self._recorder.report_sent(report, len(payload), now_ns)
                self._gate.when_in_force(partial(self._bus.publish, payload))
            case WriteLedger(record):
                self._gate.when_in_force(
                    lambda: self.spawn(self._change_ledger(record, remove=False))
                )
            case RemoveLedger(record):
                self._gate.when_in_force(
                    lambda: self.spawn(self._change_ledger(record, remove=True))
                )
            case JoinMembership():
                self.spawn(self._join())
            case LeaveMembership():
                self._gate.when_in_force(lambda: self.spawn(self._leave()))
            case DrainGate():
                self.spawn(self._drain_gate(self._gate))
            case _:
                assert_never(instruction)

    def _record_limits(self, group: str, now_ns: int) -> None:
        if self._recorder is not None:
            decisions = self._state.decider.decisions
            of_group = {dimension: decisions[group, dimension] for dimension in Dimension}
            self._recorder.limits_set(group, of_group, now_ns)

    async def _join(self) -> None:
        try:
            incarnation = await self._membership.join(
                self._state.settings.broker, self._api_address
            )
        except PortError as error:
            log.warning("cannot join the membership yet", reason=str(error))
            return
        log.info("joined", incarnation=incarnation)
        self.post(MembershipJoined(incarnation))

    async def _confirm_session(self, asked_ns: int) -> None:
        try:
            confirmation = await self._membership.confirm()
        except PortError as error:  # the core goes on asking, and stops when its lease ends
            log.info("session not confirmed", reason=str(error))
            return
        connected_ns, timeout_ns = confirmation.connected_ns, confirmation.timeout_ns
        self.post(SessionConfirmed(asked_ns, connected_ns, timeout_ns))

    async def _change_ledger(self, record: LedgerRecord, *, remove: bool) -> None:
        assert self._ledgers is not None
        try:
            if remove:
                await self._ledgers.remove(record)
            else:
                await self._ledgers.write(record)
        except PortError as error:  # the core asks again, if it still wants it
            log.info("ledger not changed", group=record.group, reason=str(error))
            return
        dead = [f"{account.broker}@{account.incarnation}" for account in sorted(record.claimed)]
        log.info("ledger changed", group=record.group, removed=remove, inherited_from=dead)

    async def _leave(self) -> None:
        try:
            await self._membership.leave()
        except PortError as error:
            log.warning("cannot leave the membership; the session's end will", reason=str(error))

    async def _drain_gate(self, gate: TrafficGate) -> None:
        await gate.drain(self._drain_timeout_s)
        self.post(DrainCompleted())

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, GateGone):
            log.error("a task of the sidecar failed", exc_info=error)
        elif not self.stopped.is_set():  # all who ask the gate fail at once, for one cause
            log.error("the sidecar ends with its gate", reason=str(error))
        self.stopped.set()
