"""A hostile world for real cores under the policy strict: what can go wrong with bus, store and process.

The bus keeps every report and delivers, drops, repeats and reorders them as it is told. ZooKeeper keeps
its promises and nothing more: a session ends no earlier than its timeout after the last contact, a
client notices a broken connection within two thirds of it, views arrive late, and writes are
compare-and-set. Sidecars crash, restart under new registrations, and are cut off. After every event
that a sidecar handles, all limits in force are added up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    ConnectionState,
    Event,
    GroupsChanged,
    LedgersChanged,
    MembersChanged,
    MembershipJoined,
    ParticipantsChanged,
    TrafficCounted,
    UsageReportReceived,
)
from coordinator.core.instructions import (
    Instruction,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    WriteLedger,
)
from coordinator.core.model import (
    LedgerRecord,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Traffic,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState

GROUP = "orders"
STEP_NS = 100_000_000
TIMEOUT_NS = CoreSettings("any").session_timeout_ns
#: The latest that a client notices a broken connection.
NOTICE_NS = TIMEOUT_NS * 2 // 3
MAX_UNDER_WAY = 300


@dataclass
class Process:
    """One running sidecar, and what it has seen of the store."""

    state: CoordinatorState
    demand: int = 0
    registration: Member | None = None
    #: Since when ZooKeeper is out of reach; None while it is not.
    cut_off_ns: int | None = None
    noticed: bool = False
    #: Changes of the store that this process has not seen yet.
    unseen: list[Event] = field(default_factory=list)


@dataclass
class StrictWorld:
    """Sidecars b1 to bN, the bus between them, and the store."""

    limit: int = 1000
    now_ns: int = 0
    processes: dict[str, Process] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    #: When the session of each registration may end: set when its process is cut off or dead.
    expires_ns: dict[Member, int] = field(default_factory=dict)
    ledger: LedgerRecord | None = None
    #: Reports on their way, with the receiver.
    under_way: list[tuple[str, UsageReport]] = field(default_factory=list)
    #: The limits that some process may still go by.
    known_limits: dict[str, int] = field(default_factory=dict)
    registrations: int = 0
    inherited: int = 0

    def start(self, broker: str, demand: int) -> None:
        """A new process beside a broker; nothing is left of an earlier one."""
        state = CoordinatorState(CoreSettings(broker))
        self.processes[broker] = Process(state, demand)
        self.known_limits[broker] = self.limit
        for event in (
            ConnectionChanged(ConnectionState.CONNECTED),
            self._ledgers(),
            self._groups(),
            BrokerAvailabilityChanged(answering=True),
            ParticipantsChanged(GROUP, MonitoringClass.PUBLISH, 1),
        ):
            self._handle(broker, event)

    def crash(self, broker: str) -> None:
        """The process is gone; its session lives on for a while."""
        process = self.processes.pop(broker)
        self.known_limits.pop(broker)
        if process.registration in self.members.values():
            assert process.registration is not None
            since_ns = self.now_ns if process.cut_off_ns is None else process.cut_off_ns
            self.expires_ns[process.registration] = since_ns + TIMEOUT_NS

    def cut_off(self, broker: str) -> None:
        """A process loses ZooKeeper; it will notice late."""
        process = self.processes[broker]
        if process.cut_off_ns is None:
            process.cut_off_ns, process.noticed = self.now_ns, False
            if process.registration is not None:
                self.expires_ns[process.registration] = self.now_ns + TIMEOUT_NS

    def reconnect(self, broker: str) -> None:
        """ZooKeeper is back: with the old session if it lives, else with a new one."""
        process = self.processes[broker]
        if process.cut_off_ns is None:
            return
        process.cut_off_ns = None
        alive = process.registration in self.members.values()
        if alive and process.registration is not None:
            del self.expires_ns[process.registration]
        elif process.registration is not None:
            process.registration = None
            self._handle(broker, ConnectionChanged(ConnectionState.LOST))
        self._handle(broker, ConnectionChanged(ConnectionState.CONNECTED))
        process.unseen.clear()
        for event in (self._ledgers(), self._groups(), self._membership()):
            self._handle(broker, event)
        self.known_limits[broker] = self.limit

    def leave(self, broker: str) -> None:
        """The own broker of a sidecar ceases to answer, and answers again."""
        self._handle(broker, BrokerAvailabilityChanged(answering=False))
        self._handle(broker, BrokerAvailabilityChanged(answering=True))

    def set_limit(self, limit: int) -> None:
        """Change the group's limit; every process learns it when it sees the store."""
        self.limit = limit
        self._tell(self._groups())

    def see(self, broker: str) -> None:
        """A process sees the oldest change of the store that it has not seen."""
        process = self.processes[broker]
        if process.cut_off_ns is None and process.unseen:
            event = process.unseen.pop(0)
            seen = self.known_limits[broker]
            if isinstance(event, GroupsChanged):
                seen = event.groups[0].limits.publish_messages or 0
                self.known_limits[broker] = max(self.known_limits[broker], seen)
            self._handle(broker, event)
            self.known_limits[broker] = seen

    def deliver(self, index: int, *, keep: bool) -> None:
        """One report that is under way arrives; kept, it may arrive again."""
        if self.under_way:
            index %= len(self.under_way)
            receiver, report = self.under_way[index]
            if not keep:
                del self.under_way[index]
            if receiver in self.processes:
                self._handle(receiver, UsageReportReceived(report))

    def drop(self, index: int) -> None:
        """One report that is under way is lost."""
        if self.under_way:
            del self.under_way[index % len(self.under_way)]

    def step(self) -> None:
        """A moment passes: sessions end, broken connections are noticed, traffic is counted."""
        self.now_ns += STEP_NS
        for member, expires_ns in list(self.expires_ns.items()):
            if self.now_ns >= expires_ns:
                del self.expires_ns[member]
                if self.members.get(member.broker) == member:
                    del self.members[member.broker]
                    self._tell(self._membership())
        for broker, process in list(self.processes.items()):
            if process.cut_off_ns is None:
                while process.unseen:  # a view never lags by a whole step
                    self.see(broker)
            elif not process.noticed and self.now_ns - process.cut_off_ns >= NOTICE_NS:
                process.noticed = True
                self._handle(broker, ConnectionChanged(ConnectionState.SUSPENDED))
            self._handle(broker, TrafficCounted((self._traffic(process),)))

    def calm(self, steps: int) -> None:
        """Time without trouble: whatever is said arrives, in order."""
        for _ in range(steps):
            self.step()
            for _ in range(len(self.under_way)):
                self.deliver(0, keep=False)

    def in_force(self) -> dict[str, int]:
        """The local limits of all running processes, cut off or not."""
        return {
            broker: process.state.limits().get(GROUP, Rates()).publish_messages or 0
            for broker, process in self.processes.items()
        }

    def check(self) -> None:
        """No more is in force than the largest limit that some process goes by."""
        in_force = self.in_force()
        ceiling = max([self.limit, *self.known_limits.values()])
        assert sum(in_force.values()) <= ceiling, f"{in_force} of {ceiling}"

    def _traffic(self, process: Process) -> Traffic:
        limit = process.state.limits().get(GROUP, Rates()).publish_messages or 0
        held = STEP_NS if process.demand > limit else 0
        admitted = min(process.demand, limit) * STEP_NS // 1_000_000_000
        return Traffic(
            GROUP,
            MonitoringClass.PUBLISH,
            messages=admitted,
            messages_held_ns=held,
            participants=1,
        )

    def _groups(self) -> GroupsChanged:
        rates = Rates(publish_messages=self.limit)
        return GroupsChanged((ResourceGroup(GROUP, rates, overshoot_policy="strict"),))

    def _ledgers(self) -> LedgersChanged:
        return LedgersChanged(() if self.ledger is None else (self.ledger,))

    def _membership(self) -> MembersChanged:
        return MembersChanged(tuple(sorted(self.members.values())))

    def _tell(self, event: Event) -> None:
        for process in self.processes.values():
            process.unseen.append(event)

    def _handle(self, broker: str, event: Event) -> None:
        for instruction in self.processes[broker].state.handle(event, self.now_ns):
            self._carry_out(broker, instruction)
        self.check()

    def _carry_out(self, broker: str, instruction: Instruction) -> None:
        process = self.processes[broker]
        match instruction:
            case PublishUsageReport(report):
                others = [other for other in self.processes if other != broker]
                self.under_way += [(other, report) for other in others]
                del self.under_way[:-MAX_UNDER_WAY]
            case WriteLedger(record) if process.cut_off_ns is None:
                self._write(record)
            case JoinMembership() if process.cut_off_ns is None:
                self._join(broker)
            case LeaveMembership() if process.cut_off_ns is None:
                if self.members.get(broker) == process.registration:
                    self.members.pop(broker, None)
                    self._tell(self._membership())
                process.registration = None
            case _:
                pass

    def _write(self, record: LedgerRecord) -> None:
        version = -1 if self.ledger is None else self.ledger.version
        if record.version == version:
            self.inherited += bool(record.claimed)
            self.ledger = replace(record, generation=1, version=version + 1)
            self._tell(self._ledgers())

    def _join(self, broker: str) -> None:
        self.registrations += 1
        member = Member(broker, self.registrations)
        self.expires_ns.pop(self.members.get(broker, member), None)
        self.members[broker] = member
        self.processes[broker].registration = member
        self._tell(self._membership())
        self._handle(broker, MembershipJoined(member.incarnation))
