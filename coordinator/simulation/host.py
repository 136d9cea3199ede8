"""One broker with its sidecar: a real core, real buckets, a clock of its own, and the client's messages.

A host does what the runner and the gate do around a core: it brings counts every step, carries
instructions out in order, and starts, pauses, drains and dies as a process does. What reaches a paused
host waits, as in a socket's buffer, and is handled in order afterwards. Its clock starts at a random
moment, may run ahead of the true time and may jump forward, but, being monotonic, never back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, assert_never

from coordinator.core.events import (
    BrokerAvailabilityChanged,
    DrainCompleted,
    DrainRequested,
    Event,
    MembersChanged,
    ParticipantsChanged,
    Tick,
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
    RemoveEscrow,
    RemoveLocalLimits,
    SetLocalLimits,
    WriteEscrow,
)
from coordinator.core.model import (
    DIMENSIONS_OF,
    Account,
    AnyRates,
    Dimension,
    MonitoringClass,
    TrafficKey,
    Unit,
    UsageReport,
)
from coordinator.core.reports.early import EarlyReports
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.ports import Recorder
from coordinator.simulation.schedule import Schedule
from coordinator.simulation.traffic import Load
from coordinator.simulation.valve import STEP_NS, SimulatedLimiter
from coordinator.simulation.zookeeper import ZooKeeper
from coordinator.wire import reports

_DRAIN_NS = 50_000_000
_BROKER_CHECK_NS = 20_000_000
_EVERY_UNIT = frozenset(Unit)


class Surroundings(Protocol):
    """The world, as a host speaks to it."""

    def publish(self, host: Host, report: UsageReport) -> None:
        """Put a report on the bus."""

    def limit_changed(
        self, host: Host, group: str, dimension: Dimension, before: int, after: int
    ) -> None:
        """A local limit in force changed, per second; 0 is also "none yet" and "gone"."""

    def passed(self, host: Host, key: TrafficKey, load: Load, admitted: int) -> None:
        """A step of a group's traffic is over; `admitted` messages passed."""

    def handled(self, host: Host, event: Event, instructions: Sequence[Instruction]) -> None:
        """The core has handled an event and said what is to be done, which has been done."""

    def failed(self, host: Host, event: Event, error: Exception) -> None:
        """The core raised; does not return normally."""


class Host:
    """A broker and its sidecar; a restarted one is a new object.

    Args:
        settings: the core's, with the broker's id.
        loads: what its clients want, by group and class.
        schedule: the world's.
        zookeeper: the world's.
        world: whom to tell.
        clock_ns: how far its clock is ahead of the true time.
        recorder: keeps what happens, as a sidecar's does.
    """

    def __init__(
        self,
        settings: CoreSettings,
        loads: dict[TrafficKey, Load],
        schedule: Schedule,
        zookeeper: ZooKeeper,
        world: Surroundings,
        clock_ns: int = 0,
        recorder: Recorder | None = None,
    ) -> None:
        self.name = settings.broker
        self.loads = loads
        self.state = CoordinatorState(settings)
        #: Changes a report on its way out: how a broken or lying sidecar is made.
        self.distort: Callable[[UsageReport], UsageReport] | None = None
        self.running = True
        self._schedule = schedule
        self._zookeeper = zookeeper
        self._world = world
        self._clock_ns = clock_ns
        self._recorder = recorder
        self._limiters: dict[TrafficKey, SimulatedLimiter] = {}
        self._connected: dict[TrafficKey, bool] = {}
        #: Whether it stands still.
        self.paused = False
        self._inbox: deque[Event] = deque()
        #: Reports of registrations that ZooKeeper has not shown here yet.
        self._early: EarlyReports[UsageReport] = EarlyReports()
        self._counted_ns = self.now_ns
        #: The groups whose limits are leased, until when, and whether that is over: the gate's own look.
        self._leased: set[str] = set()
        self._lease_until_ns = self.now_ns
        self._lease_over = True
        self.session = zookeeper.open(self.name, self.receive, lambda: self.now_ns)
        schedule.after(
            _BROKER_CHECK_NS, lambda: self.receive(BrokerAvailabilityChanged(answering=True))
        )
        schedule.after(STEP_NS, self._step)

    @property
    def now_ns(self) -> int:
        """This host's own monotonic clock."""
        return self._schedule.now_ns + self._clock_ns

    def limit_of(self, group: str, dimension: Dimension = Dimension.PUBLISH_MESSAGES) -> int:
        """Return a group's whole limit in force, per second; 0 before there is one, and without one."""
        if self._is_shut(group):
            return 0
        limiter = self._limiters.get((group, dimension.monitoring_class))
        return int(limiter.rate_of(dimension.unit) or 0) if limiter is not None else 0

    def jump_clock(self, by_ns: int) -> None:
        """Move the clock forward at once, as a resumed virtual machine's does."""
        assert by_ns >= 0, "a monotonic clock never goes back"
        self._clock_ns += by_ns
        self._look_at_lease()

    def crash(self) -> None:
        """Be gone without a word; ZooKeeper notices by the session's timeout."""
        self._stop()
        self._zookeeper.abandon(self.session)

    def drain(self) -> None:
        """Leave in order, as after SIGTERM."""
        self.receive(DrainRequested())

    def pause(self, duration_ns: int) -> None:
        """Do nothing at all for a while, as in a long garbage collection."""
        self.paused = True
        self._zookeeper.cut(self.session)
        self._schedule.after(duration_ns, self._resume)

    def receive(self, event: Event) -> None:
        """Give the core an event, and carry out what it says."""
        if not self.running:
            return
        if self.paused:
            self._inbox.append(event)
            return
        if self._recorder is not None and isinstance(event, UsageReportReceived):
            size = len(reports.encode(event.report))
            self._recorder.report_received(event.report, size, self.now_ns)
        if isinstance(event, UsageReportReceived) and self._is_ahead(event.report):
            sender = Account(event.report.broker, event.report.incarnation)
            self._early.keep(sender, event.report, 1, self.now_ns)
            return
        self._handle(event)
        if isinstance(event, MembersChanged):
            members = {member.broker: member for member in event.members}
            for report in self._early.confirm(members):
                self._handle(UsageReportReceived(report))

    def _is_ahead(self, report: UsageReport) -> bool:
        self._early.expire(self.now_ns)
        return report.broker != self.name and self._early.is_ahead(report.incarnation)

    def _handle(self, event: Event) -> None:
        try:
            instructions = self.state.handle(event, self.now_ns)
        except Exception as error:  # noqa: BLE001  # any failure of a core ends the run, with its seed
            self._world.failed(self, event, error)
            return
        for instruction in instructions:
            self._carry_out(instruction)
        if self._recorder is not None:
            self._recorder.handled(event, self.state, self.now_ns)
        if instructions:
            self._world.handled(self, event, instructions)

    def _resume(self) -> None:
        self.paused = False
        while self._inbox:
            self.receive(self._inbox.popleft())
        if self.running:
            self._zookeeper.restore(self.session)

    def _stop(self) -> None:
        self.running = False
        for group in dict.fromkeys(group for group, _ in self._limiters):
            self._remove(group)

    def _step(self) -> None:
        if not self.running:
            return
        self._schedule.after(STEP_NS, self._step)
        if self.paused:
            return
        now_ns = self.now_ns
        elapsed_ns = now_ns - self._counted_ns
        self._counted_ns = now_ns
        self.receive(TrafficCounted(self._counted(elapsed_ns, now_ns)))
        if self.state.tick_due_ns <= now_ns:
            self.receive(Tick())

    def _counted(self, elapsed_ns: int, now_ns: int) -> tuple[Traffic, ...]:
        """Let the traffic of a step pass, and return what is counted of it."""
        flows = [self._flow(key, load, elapsed_ns, now_ns) for key, load in self.loads.items()]
        return tuple(traffic for traffic in flows if traffic is not None)

    def _flow(self, key: TrafficKey, load: Load, elapsed_ns: int, now_ns: int) -> Traffic | None:
        waited = load.waiting
        # A clock that jumped is no reason for clients to have sent more.
        connected = load.arrive(self._schedule.now_ns, min(elapsed_ns, STEP_NS))
        if connected is not self._connected.get(key, False):
            self._connected[key] = connected
            self.receive(ParticipantsChanged(*key, int(connected)))
        limiter = self._limiters.get(key)
        size = load.source.message_bytes
        admitted = 0
        if limiter is not None and not self._is_shut(key[0]):
            admitted = self._admit(key, load, limiter, now_ns)
        load.waiting -= admitted
        self._world.passed(self, key, load, admitted)
        if not connected and not admitted:
            return None
        held_ns = _held_ns(waited, load, admitted, elapsed_ns)
        held_by = limiter.held_by if limiter is not None else _EVERY_UNIT
        group, monitoring_class = key
        return Traffic(
            group,
            monitoring_class,
            messages=admitted,
            bytes=admitted * size,
            messages_held_ns=held_ns if Unit.MESSAGES in held_by else 0,
            bytes_held_ns=held_ns if Unit.BYTES in held_by else 0,
            participants=int(connected),
            topics=load.source.topics if connected else 0,
            messages_owed=limiter.owed(Unit.MESSAGES, now_ns) if limiter is not None else 0,
            bytes_owed=limiter.owed(Unit.BYTES, now_ns) if limiter is not None else 0,
        )

    def _admit(self, key: TrafficKey, load: Load, limiter: SimulatedLimiter, now_ns: int) -> int:  # noqa: ARG002
        """Admit waiting messages; return how many pass now."""
        return limiter.admit(load.waiting, load.source.message_bytes, now_ns)

    def _carry_out(  # noqa: C901  # one row per instruction
        self, instruction: Instruction
    ) -> None:
        match instruction:
            case SetLocalLimits(group, limits, leased):
                self._limit(group, limits, leased=leased)
                self._record_limits(group)
            case RemoveLocalLimits(group):
                self._remove(group)
            case HoldLease(until_ns):
                self._lease_until_ns = until_ns
                self._look_at_lease()
                self._schedule.at(until_ns - self._clock_ns, self._look_at_lease)
            case ConfirmSession(asked_ns):
                self._zookeeper.confirm(self.session, asked_ns)
            case PublishUsageReport(report):
                self._publish(self.distort(report) if self.distort else report)
            case JoinMembership():
                self._zookeeper.join(self.session)
            case LeaveMembership():
                self._zookeeper.leave(self.session)
            case WriteEscrow(record):
                self._zookeeper.write_escrow(self.session, record)
            case RemoveEscrow(record):
                self._zookeeper.remove_escrow(self.session, record)
            case DrainGate():
                self._schedule.after(_DRAIN_NS, self._drained)
            case _:
                assert_never(instruction)

    def _publish(self, report: UsageReport) -> None:
        if self._recorder is not None:
            self._recorder.report_sent(report, len(reports.encode(report)), self.now_ns)
        self._world.publish(self, report)

    def _record_limits(self, group: str) -> None:
        if self._recorder is not None:
            decisions = self.state.decider.decisions
            of_group = {dimension: decisions[group, dimension] for dimension in Dimension}
            self._recorder.limits_set(group, of_group, self.now_ns)

    def _limit(self, group: str, limits: AnyRates, *, leased: bool) -> None:
        before = {dimension: self.limit_of(group, dimension) for dimension in Dimension}
        self._leased.discard(group)
        if leased:
            self._leased.add(group)
        for dimension in Dimension:
            key = (group, dimension.monitoring_class)
            limiter = self._limiters.setdefault(key, SimulatedLimiter())
            rate = limits.of(dimension)
            limiter.set_rate(dimension.unit, rate, self.now_ns)
            self._tell_limit(group, dimension, before[dimension])

    def _is_shut(self, group: str) -> bool:
        return self._lease_over and group in self._leased

    def _look_at_lease(self) -> None:
        """Check the lease, as a gate does at every message even while its process stands still."""
        over = self.now_ns >= self._lease_until_ns
        if over is self._lease_over:
            return
        leased = [(group, dimension) for group in sorted(self._leased) for dimension in Dimension]
        before = {key: self.limit_of(*key) for key in leased}
        self._lease_over = over
        for key in leased:
            self._tell_limit(*key, before[key])

    def _remove(self, group: str) -> None:
        for monitoring_class in MonitoringClass:
            dimensions = DIMENSIONS_OF[monitoring_class]
            before = {dimension: self.limit_of(group, dimension) for dimension in dimensions}
            self._limiters.pop((group, monitoring_class), None)
            for dimension in dimensions:
                self._tell_limit(group, dimension, before[dimension])

    def _tell_limit(self, group: str, dimension: Dimension, before: int) -> None:
        after = self.limit_of(group, dimension)
        if after != before:
            self._world.limit_changed(self, group, dimension, before, after)

    def _drained(self) -> None:
        self.receive(DrainCompleted())
        self._stop()
        self._zookeeper.close(self.session)


def _held_ns(waited: int, load: Load, admitted: int, elapsed_ns: int) -> int:
    """Return how long clients waited in a step, with arrivals and tokens flowing evenly through it.

    Held to the end: from the moment when what could pass had passed. Held from the start only: until
    what had waited was through.
    """
    if load.waiting:
        if waited:
            return elapsed_ns
        wanted = admitted + load.waiting
        return elapsed_ns * load.waiting // wanted
    if waited and admitted:
        return elapsed_ns * min(waited, admitted) // admitted
    return 0
