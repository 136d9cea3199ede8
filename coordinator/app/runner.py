"""The shell around the core: it turns news into events, in order, and has the instructions carried out.

Everything runs on one event loop's thread, the *coordinator's loop*. A source of news calls ``post``;
events are handled one after the other, never one inside the other, and the instructions of one event are
carried out (executor.py) before the next event is handled.

A failure stops nothing else (coordinator.runtime.supervision): an event that the core cannot handle costs
no other event, and failures of the event log or the recorder do not reach the core. The instructions of
such an event are lost, so the gate is told at once what the core has decided, and the core decides anew.
If the core fails at counts or Ticks `_FAILURES_MAX` times in a row, or cannot drain, the sidecar ends, to
begin with a new core.

All other work on that loop (samples of groups and backlogs, questions of requests) goes in small steps
with turns in between. Traffic does not wait for it, being in another process; but counts do, which are
due every `COLLECTED_EVERY_S`, and with them Ticks, which bring rounds and urgent reports. If the
coordinator is silent for a second, even its gate stands still (coordinator.gate.process). A gate that is
slow is asked for its counts once and waited for; the core still gets Ticks.

The bus carries bytes from any sender; coordinator.app.reception verifies them before the core sees them.
The sampler's event log and the recorder keep the history; events themselves are not kept, since a
report is as large as there are groups.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace

import structlog

from coordinator.app.executor import InstructionExecutor
from coordinator.app.handlings import Handlings
from coordinator.app.reception import Reception
from coordinator.app.topic_groups import TopicGroups
from coordinator.config import ConfigError
from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    ConnectionState,
    DrainRequested,
    EscrowChanged,
    Event,
    GroupsChanged,
    MembersChanged,
    ParticipantsChanged,
    Tick,
    TrafficCounted,
    UsageReportReceived,
)
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import NANOS_PER_SECOND, EscrowRecord, Member, MonitoringClass
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.insight.shell.sampler import Sampler
from coordinator.insight.shell.views import SidecarViews
from coordinator.ports import (
    COLLECTED_EVERY_S,
    COLLECTED_QUIETLY_EVERY_S,
    COLLECTED_QUIETLY_OF_SESSION,
    BrokerAdmin,
    Catalogue,
    Clock,
    EscrowStore,
    GateGone,
    GroupStore,
    Membership,
    Recorder,
    ReportBus,
    TopicLimits,
    TrafficGate,
)
from coordinator.runtime.supervision import TaskSupervisor
from coordinator.wire.intake import ReceivedReport

_BROKER_CHECK_S = 1.0
_BROKER_FAILURES = 3
_TIME_PASSES = frozenset({TrafficCounted, Tick})
_FAILURES_MAX = 100
"""Counts come twenty times a second while traffic passes, and twice while none does."""

log = structlog.get_logger(__name__)


class Runner:
    """Run one core.

    Args:
        state: the core.
        clock: monotonic time.
        store: groups and attachments.
        membership: the live sidecars.
        bus: usage reports.
        broker: the own broker's admin REST.
        api_address: host:port of the own admin API, told to the others.
        drain_timeout_s: the longest that draining may take.
        supervisor: the process's.
        checks_invariants: check the core after every event; a broken invariant is a failed task.
    """

    def __init__(  # noqa: PLR0913  # one per part
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
        supervisor: TaskSupervisor | None = None,
        checks_invariants: bool = False,
    ) -> None:
        #: Runs the tasks that must not end, and counts their failures.
        self.supervisor = supervisor or TaskSupervisor()
        self._state = state
        self._clock = clock
        self._store = store
        self._membership = membership
        self._bus = bus
        self._broker = broker
        self._api_address = api_address
        self._drain_timeout_s = drain_timeout_s
        self._checks_invariants = checks_invariants
        self._recorder: Recorder | None = None
        self._gate: TrafficGate | None = None
        self._executor: InstructionExecutor | None = None
        #: The store's definitions; None before the first.
        self._catalogue: Catalogue | None = None
        self._topic_groups = TopicGroups()
        self._handlings = Handlings()
        self._events: deque[Event] = deque()
        #: Set when traffic passes again, or work is due: else counts are collected seldom.
        self._counts_wanted = asyncio.Event()
        self._collected_quietly_every_s = min(
            COLLECTED_QUIETLY_EVERY_S,
            COLLECTED_QUIETLY_OF_SESSION * state.settings.session_timeout_ns / NANOS_PER_SECOND,
        )
        self._handling = False
        self._tasks: set[asyncio.Task[None]] = set()
        #: Failures in a row, by event.
        self._failures: Counter[type[Event]] = Counter()
        #: The present state, for readers.
        self.views = SidecarViews(state, clock, self.supervisor)
        #: The check of the payloads from the bus.
        self.reception = Reception(
            state.settings.broker,
            clock,
            received=self._report_received,
            dropped=self.views.payloads_dropped,
            own_wanted=lambda: self._recorder is not None,
        )
        self.views.foreign_reports = self.reception.senders.foreign
        #: The event log, and the samples of every group.
        self.sampler = Sampler(state, clock, self.supervisor)
        #: Set when the catalogue was read for the first time: from then on limits are known.
        self.informed = asyncio.Event()
        #: The mistake in the configuration that a task found, which is why the core has stopped.
        self.mistake: ConfigError | None = None
        #: Set when the core has stopped.
        self.stopped = asyncio.Event()

    # News from outside.

    def start(
        self, gate: TrafficGate, escrow: EscrowStore, recorder: Recorder | None = None
    ) -> None:
        """Connect everything; events flow from now on, and are recorded if there is a recorder."""
        self._gate = gate
        self._recorder = self.views.recorder = recorder
        self._executor = InstructionExecutor(
            self._state,
            gate=gate,
            membership=self._membership,
            bus=self._bus,
            escrow=escrow,
            recorder=recorder,
            reception=self.reception,
            supervisor=self.supervisor,
            api_address=self._api_address,
            drain_timeout_s=self._drain_timeout_s,
            post=self.post,
            spawn=self.spawn,
        )
        gate.watch_traffic(self._counts_wanted.set)
        self._membership.watch_connection(self._connection_changed)
        self._membership.watch_members(self._members_changed)
        escrow.watch(self._escrow_changed)
        self._store.watch(self._catalogue_changed)
        self._bus.watch(self.reception.arrived)
        self.keep("rounds", self._tick)
        self.keep("broker checks", self._watch_broker)
        self.keep("samples", self.sampler.run)

    def post(self, event: Event) -> None:
        """Hand an event to the core; return when it and all its consequences are handled."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                self._handle_safely(self._events.popleft())
        finally:
            self._handling = False

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, participants: int
    ) -> None:
        """Note that the first participant of a group appeared at the gate, or the last one left.

        Handled in the loop's next turn: its consequences are told to the gate, which is in the
        middle of its own work when it calls this.
        """
        event = ParticipantsChanged(group, monitoring_class, participants)
        asyncio.get_running_loop().call_soon(self.post, event)

    def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run work beside the core for as long as the sidecar lives, despite failures in it."""
        self.spawn(self.supervisor.keep(name, work))

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run work that the sidecar cannot do without: when it fails, the sidecar stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    async def drain(self) -> bool:
        """Leave, drain the gate and stop; return whether all of it was done."""
        self.post(DrainRequested())
        await self.stopped.wait()
        return self._state.lifecycle is Lifecycle.STOPPED

    async def close(self) -> None:
        """End all tasks."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # From news to events.

    def _connection_changed(self, state: ConnectionState) -> None:
        self.views.connection_changed(state)
        self.post(ConnectionChanged(state))

    def _members_changed(self, members: tuple[Member, ...]) -> None:
        log.info("members changed", members=[member.broker for member in members])
        self.post(MembersChanged(members))
        self.reception.set_members(members)

    def topic_limits_changed(self, limits: TopicLimits) -> None:
        """Take over the limits of topics in the store."""
        if self._topic_groups.set_limits(limits) and self._catalogue is not None:
            self._define(self._catalogue)

    def _catalogue_changed(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._define(catalogue)
        self.informed.set()

    def _define(self, catalogue: Catalogue) -> None:
        groups = (*(entry.group for entry in catalogue.groups.values()), *self._topic_groups)
        self.views.catalogue_changed(catalogue, self._topic_groups.names)
        # Groups first: a namespace that is attached to a new group must find its limits set.
        self.post(GroupsChanged(groups))
        assert self._gate is not None
        topics = self._topic_groups.names
        for name, handling in self._handlings.changed(groups):
            self._gate.set_handling(name, handling)
        self._gate.set_attachments(replace(catalogue.attachments, topics=topics))
        self.reception.set_groups(groups)

    def _escrow_changed(self, records: tuple[EscrowRecord, ...]) -> None:
        self.post(EscrowChanged(records))

    def _report_received(self, received: ReceivedReport) -> None:
        if self._recorder is not None:
            with self.supervisor.guard("recorder"):
                self._recorder.report_received(received.report, received.size, self._clock.now_ns())
        self.post(UsageReportReceived(received.report))

    async def _tick(self) -> None:
        assert self._gate is not None
        quiet = False
        while True:
            await self._until_counts_are_due(quiet=quiet)
            counted = await self._counts(self._gate)
            self.views.traffic_counted(counted)
            self.post(TrafficCounted(counted))
            self.reception.expire()
            if self._state.tick_due_ns <= self._clock.now_ns():
                self.post(Tick())
            self._counts_wanted.clear()
            quiet = all(traffic.is_quiet for traffic in counted)

    async def _counts(self, gate: TrafficGate) -> tuple[Traffic, ...]:
        """Collect the counts. Meanwhile Ticks let terms end, the lease's above all; rounds wait."""
        counts = asyncio.ensure_future(gate.collect())
        try:
            while not (await asyncio.wait([counts], timeout=self._collected_quietly_every_s))[0]:
                self.post(Tick())
        finally:
            counts.cancel()
        return counts.result()

    async def _until_counts_are_due(self, *, quiet: bool) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + COLLECTED_EVERY_S
        if quiet:
            due_ns = self._state.tick_due_ns - self._clock.now_ns()
            rests_s = min(due_ns / NANOS_PER_SECOND, self._collected_quietly_every_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(rests_s):
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

    # Events, one after the other.

    def _handle_safely(self, event: Event) -> None:
        kind = type(event)
        try:
            self._handle(event)
        except Exception as error:
            self.supervisor.failed(f"core, {kind.__name__}", error)
            self._failures[kind] += 1
            fails_always = kind in _TIME_PASSES and self._failures[kind] >= _FAILURES_MAX
            if fails_always or kind is DrainRequested:
                log.exception("the sidecar ends with its core", failed_at=kind.__name__)
                self.stopped.set()
                return
            assert self._executor is not None
            with self.supervisor.guard("limits after a failure"):
                self._executor.enforce_only(self._state.start_over(), self._clock.now_ns())
        else:
            self._failures[kind] = 0

    def _handle(self, event: Event) -> None:
        now_ns = self._clock.now_ns()
        before = (self._state.lifecycle, self._state.degradations.all())
        capped = set(self._state.plausibility.times_capped)
        instructions = self._state.handle(event, now_ns)
        if (self._state.lifecycle, self._state.degradations.all()) != before:
            log.info(
                "state changed",
                before=before[0].value,
                after=self._state.lifecycle.value,
                degradations=[degradation.value for degradation in self._state.degradations.all()],
            )
        if new := self._state.plausibility.times_capped.keys() - capped:
            log.warning("brokers announce more than twice their targets", brokers=sorted(new))
        assert self._executor is not None
        for instruction in instructions:
            self._executor.carry_out(instruction, now_ns)
        if self._checks_invariants:
            with self.supervisor.guard("invariants"):
                self._state.validate()
        with self.supervisor.guard("event log"):
            self.sampler.handled(event)
        if self._recorder is not None:
            with self.supervisor.guard("recorder"):
                self._recorder.handled(event, self._state, now_ns)
        if self._state.tick_due_ns <= now_ns:
            self._counts_wanted.set()
        if self._state.lifecycle is Lifecycle.STOPPED:
            self.stopped.set()

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, ConfigError):
            self.mistake = error
        elif not isinstance(error, GateGone):
            log.error("a task of the sidecar failed", exc_info=error)
        elif not self.stopped.is_set():  # all callers of the gate fail at once, for one cause
            log.error("the sidecar ends with its gate", reason=str(error))
        self.stopped.set()
