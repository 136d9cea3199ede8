"""One broker with its sidecar: a real core, real buckets, a clock of its own, and the client's messages.

A host does what the runner and the gate do around a core: it brings counts every step, carries
instructions out in order, and starts, pauses, drains and dies as a process does. What reaches a paused
host waits, as in a socket's buffer, and is handled in order afterwards. Its clock starts at a random
moment, may run ahead of the true time and may jump forward, but, being monotonic, never back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, assert_never

from coordinator.core.events import (
    BrokerAvailabilityChanged,
    DrainCompleted,
    DrainRequested,
    Event,
    ParticipantsChanged,
    TrafficCounted,
)
from coordinator.core.instructions import (
    DrainGate,
    Instruction,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    RemoveLedger,
    RemoveLocalLimits,
    SetLocalLimits,
    WriteLedger,
)
from coordinator.core.model import MonitoringClass, Traffic, UsageReport
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.simulation.schedule import Schedule
from coordinator.simulation.traffic import Load
from coordinator.simulation.valve import STEP_NS, Valve
from coordinator.simulation.zookeeper import ZooKeeper

_DRAIN_NS = 50_000_000
_BROKER_CHECK_NS = 20_000_000


class Surroundings(Protocol):
    """What a host tells the world."""

    def publish(self, host: Host, report: UsageReport) -> None:
        """Put a report on the bus."""
        ...

    def limit_changed(self, host: Host, group: str, before: int, after: int) -> None:
        """A local limit in force changed, per second; 0 is also "none yet" and "gone"."""
        ...

    def passed(self, host: Host, group: str, admitted: int, offered: int, limit: int) -> None:
        """A step of a group's traffic is over."""
        ...

    def handled(self, host: Host, event: Event) -> None:
        """The core has handled an event and said what is to be done."""
        ...

    def failed(self, host: Host, event: Event, error: Exception) -> None:
        """The core raised; does not return normally."""
        ...


class Host:
    """A broker and its sidecar; a restarted one is a new object.

    Args:
        settings: the core's, with the broker's id.
        loads: what its clients want, by group.
        schedule: the world's.
        zookeeper: the world's.
        world: whom to tell.
        clock_ns: how far its clock is ahead of the true time.
    """

    def __init__(
        self,
        settings: CoreSettings,
        loads: dict[str, Load],
        schedule: Schedule,
        zookeeper: ZooKeeper,
        world: Surroundings,
        clock_ns: int = 0,
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
        self._valves: dict[str, Valve] = {}
        self._connected: dict[str, bool] = {}
        self._paused = False
        self._inbox: deque[Event] = deque()
        self._counted_ns = self.now_ns
        self.session = zookeeper.open(self.name, self.receive)
        schedule.after(
            _BROKER_CHECK_NS, lambda: self.receive(BrokerAvailabilityChanged(answering=True))
        )
        schedule.after(STEP_NS, self._step)

    @property
    def now_ns(self) -> int:
        """This host's own monotonic clock."""
        return self._schedule.now_ns + self._clock_ns

    def limit_of(self, group: str) -> int:
        """What is in force for a group, per second; 0 before anything is."""
        valve = self._valves.get(group)
        return 0 if valve is None else valve.rate

    def jump_clock(self, by_ns: int) -> None:
        """Move the clock forward at once, as a resumed virtual machine's does."""
        assert by_ns >= 0, "a monotonic clock never goes back"
        self._clock_ns += by_ns

    def crash(self) -> None:
        """Be gone without a word; ZooKeeper notices by the session's timeout."""
        self._stop()
        self._zookeeper.abandon(self.session)

    def drain(self) -> None:
        """Leave in order, as after SIGTERM."""
        self.receive(DrainRequested())

    def pause(self, duration_ns: int) -> None:
        """Do nothing at all for a while, as in a long garbage collection."""
        self._paused = True
        self._zookeeper.cut(self.session)
        self._schedule.after(duration_ns, self._resume)

    def receive(self, event: Event) -> None:
        """Give the core an event, and carry out what it says."""
        if not self.running:
            return
        if self._paused:
            self._inbox.append(event)
            return
        try:
            instructions = self.state.handle(event, self.now_ns)
        except Exception as error:  # noqa: BLE001  # any failure of a core ends the run, with its seed
            self._world.failed(self, event, error)
            return
        for instruction in instructions:
            self._carry_out(instruction)
        if instructions:
            self._world.handled(self, event)

    def _resume(self) -> None:
        self._paused = False
        while self._inbox:
            self.receive(self._inbox.popleft())
        if self.running:
            self._zookeeper.restore(self.session)

    def _stop(self) -> None:
        self.running = False
        for group in list(self._valves):
            self._remove(group)

    def _step(self) -> None:
        if not self.running:
            return
        self._schedule.after(STEP_NS, self._step)
        if self._paused:
            return
        now_ns = self.now_ns
        elapsed_ns = now_ns - self._counted_ns
        self._counted_ns = now_ns
        traffic = [
            counted
            for group, load in self.loads.items()
            if (counted := self._flow(group, load, elapsed_ns, now_ns)) is not None
        ]
        self.receive(TrafficCounted(tuple(traffic)))

    def _flow(self, group: str, load: Load, elapsed_ns: int, now_ns: int) -> Traffic | None:
        waited = load.waiting
        # A clock that jumped is no reason for clients to have sent more.
        connected = load.arrive(self._schedule.now_ns, min(elapsed_ns, STEP_NS))
        if connected is not self._connected.get(group, False):
            self._connected[group] = connected
            self.receive(ParticipantsChanged(group, MonitoringClass.PUBLISH, int(connected)))
        valve = self._valves.get(group)
        admitted = valve.admit(load.waiting, now_ns) if valve is not None else 0
        load.waiting -= admitted
        limit = valve.rate if valve is not None else 0
        self._world.passed(self, group, admitted, load.offered, limit)
        if not connected and not admitted:
            return None
        held_ns = _held_ns(waited, load, admitted, elapsed_ns)
        return Traffic(
            group,
            MonitoringClass.PUBLISH,
            messages=admitted,
            messages_held_ns=held_ns,
            participants=int(connected),
            topics=int(connected),
        )

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case SetLocalLimits(group, limits):
                self._limit(group, limits.publish_messages)
            case RemoveLocalLimits(group):
                self._remove(group)
            case PublishUsageReport(report):
                self._world.publish(self, self.distort(report) if self.distort else report)
            case JoinMembership():
                self._zookeeper.join(self.session)
            case LeaveMembership():
                self._zookeeper.leave(self.session)
            case WriteLedger(record):
                self._zookeeper.write_ledger(self.session, record)
            case RemoveLedger(record):
                self._zookeeper.remove_ledger(self.session, record)
            case DrainGate():
                self._schedule.after(_DRAIN_NS, self._drained)
            case _:
                assert_never(instruction)

    def _limit(self, group: str, rate: int | None) -> None:
        assert rate is not None, "every group of a simulation limits published messages"
        before = self.limit_of(group)
        valve = self._valves.get(group)
        if valve is None:
            self._valves[group] = Valve(rate, self.now_ns)
        else:
            valve.set_rate(rate, self.now_ns)
        self._world.limit_changed(self, group, before, rate)

    def _remove(self, group: str) -> None:
        before = self.limit_of(group)
        self._valves.pop(group, None)
        self._world.limit_changed(self, group, before, 0)

    def _drained(self) -> None:
        self.receive(DrainCompleted())
        self._stop()
        self._zookeeper.close(self.session)


def _held_ns(waited: int, load: Load, admitted: int, elapsed_ns: int) -> int:
    """For how much of a step somebody waited, with arrivals and tokens flowing evenly through it.

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
