"""A hostile world for real cores under the policy strict: what can go wrong with bus, store and process.

The bus keeps every report and delivers, drops, repeats and reorders them as it is told. ZooKeeper keeps
its promises and nothing more: a session ends the timeout after its leader last heard of it, the leader
hears of it when it pings the follower, and what was not told by then is lost when the connection breaks;
a client notices that within two thirds of the timeout, answers and views arrive late, and writes are
compare-and-set. Sidecars crash, restart under new registrations, stand still, and are cut off. After
every event that a sidecar handles, all limits in force are added up; leased ones end with the lease, as
the gate sees to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    ConnectionState,
    EscrowChanged,
    Event,
    GroupsChanged,
    MembersChanged,
    MembershipJoined,
    ParticipantsChanged,
    SessionConfirmed,
    Tick,
    TrafficCounted,
    UsageReportReceived,
)
from coordinator.core.instructions import (
    ConfirmSession,
    HoldLease,
    Instruction,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    SetLocalLimits,
    WriteEscrow,
)
from coordinator.core.model import (
    EscrowRecord,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic

GROUP = "orders"
STEP_NS = 100_000_000
TIMEOUT_NS = CoreSettings("any").session_timeout_ns
#: The latest that a client notices a broken connection.
NOTICE_NS = TIMEOUT_NS * 2 // 3
#: kazoo's own pings, and how often the leader pings its followers: twice a tick of half the timeout.
CLIENT_PING_NS = TIMEOUT_NS // 3
LEADER_PING_NS = TIMEOUT_NS // 4
MAX_UNDER_WAY = 300
#: How a process is called whose registration another process of the same broker took over.
FORMER = "former "


@dataclass
class Process:
    """One running sidecar, and what it has seen of the store."""

    state: CoordinatorState
    demand: int = 0
    #: Producers; without any the process takes no part in the group.
    participants: int = 1
    registration: Member | None = None
    #: Since when ZooKeeper is out of reach; None while it is not.
    cut_off_ns: int | None = None
    noticed: bool = False
    #: When the connection was made, or made again.
    connected_ns: int = 0
    #: When its follower last received something of it, and when the leader heard of it.
    received_ns: int = 0
    heard_ns: int = 0
    pinged_ns: int = 0
    #: Confirmations that were asked for and have not arrived, and answers that have not.
    questions: list[int] = field(default_factory=list)
    answers: list[SessionConfirmed] = field(default_factory=list)
    #: Until when answers do not arrive, and until when the process stands still.
    deaf_until_ns: int = 0
    paused_until_ns: int = 0
    #: What the gate goes by.
    leased: bool = False
    lease_until_ns: int = 0
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
    escrow_record: EscrowRecord | None = None
    #: Reports on their way, with the receiver.
    under_way: list[tuple[str, UsageReport]] = field(default_factory=list)
    #: The limits that some process may still go by.
    known_limits: dict[str, int] = field(default_factory=dict)
    registrations: int = 0
    inherited: int = 0

    def start(self, broker: str, demand: int) -> None:
        """A new process beside a broker; nothing is left of an earlier one."""
        state = CoordinatorState(self.settings_of(broker))
        self.processes[broker] = process = Process(state, demand)
        self._connect(process)
        self.known_limits[broker] = self.limit
        for event in (
            ConnectionChanged(ConnectionState.CONNECTED),
            self._escrow(),
            self._groups(),
            BrokerAvailabilityChanged(answering=True),
            ParticipantsChanged(GROUP, MonitoringClass.PUBLISH, 1),
        ):
            self._handle(broker, event)

    def let_go(self, broker: str) -> None:
        """The last producer of a broker leaves."""
        self.processes[broker].participants = 0
        self._handle(broker, ParticipantsChanged(GROUP, MonitoringClass.PUBLISH, 0))

    def usurp(self, broker: str, demand: int) -> None:
        """A second process of the same broker registers; the first, cut off, knows nothing of it."""
        former = FORMER + broker
        self.cut_off(broker)
        self.processes[former] = self.processes.pop(broker)
        self.known_limits[former] = self.known_limits.pop(broker)
        self.start(broker, demand)

    def settings_of(self, broker: str) -> CoreSettings:
        """Return the settings of a new process."""
        return CoreSettings(broker)

    def crash(self, broker: str) -> None:
        """The process is gone; its session lives on for a while."""
        process = self.processes.pop(broker)
        self.known_limits.pop(broker)
        if process.registration in self.members.values():
            assert process.registration is not None
            self.expires_ns[process.registration] = process.heard_ns + TIMEOUT_NS

    def cut_off(self, broker: str) -> None:
        """A process loses ZooKeeper; it will notice late."""
        process = self.processes[broker]
        if process.cut_off_ns is None:
            process.cut_off_ns, process.noticed = self.now_ns, False
            process.questions.clear()
            process.answers.clear()
            if process.registration is not None:
                self.expires_ns[process.registration] = process.heard_ns + TIMEOUT_NS

    def delay_answers(self, broker: str, steps: int) -> None:
        """Delay ZooKeeper's answers to a process."""
        process = self.processes[broker]
        process.deaf_until_ns = self.now_ns + steps * STEP_NS

    def pause(self, broker: str, steps: int) -> None:
        """A process stands still, unheard by ZooKeeper; then it goes on as if nothing had been."""
        self.cut_off(broker)
        self.processes[broker].paused_until_ns = self.now_ns + steps * STEP_NS

    def reconnect(self, broker: str) -> None:
        """ZooKeeper is back: with the old session if it lives, else with a new one."""
        process = self.processes[broker]
        if process.cut_off_ns is None or not self._runs(process):
            return
        process.cut_off_ns = None
        self._connect(process)
        alive = process.registration in self.members.values()
        if alive and process.registration is not None:
            del self.expires_ns[process.registration]
        elif process.registration is not None:
            process.registration = None
            self._handle(broker, ConnectionChanged(ConnectionState.LOST))
        self._handle(broker, ConnectionChanged(ConnectionState.CONNECTED))
        process.unseen.clear()
        for event in (self._escrow(), self._groups(), self._membership()):
            self._handle(broker, event)
        self.known_limits[broker] = self.limit

    def _connect(self, process: Process) -> None:
        # The leader makes a session valid with every new connection: it has heard of it.
        process.connected_ns = process.received_ns = process.heard_ns = self.now_ns

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
        if process.cut_off_ns is None and process.unseen and self._runs(process):
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
            if receiver in self.processes and self._runs(self.processes[receiver]):
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
            if not self._runs(process):
                continue
            if process.cut_off_ns is None:
                self._exchange(broker, process)
                while process.unseen:  # a view never lags by a whole step
                    self.see(broker)
            elif not process.noticed and self.now_ns - process.cut_off_ns >= NOTICE_NS:
                process.noticed = True
                self._handle(broker, ConnectionChanged(ConnectionState.SUSPENDED))
            self._handle(broker, self._counted(process))
            if process.state.tick_due_ns <= self.now_ns:
                self._handle(broker, Tick())

    def _exchange(self, broker: str, process: Process) -> None:
        """Pings and confirmations between a process, its follower, and the leader."""
        if self.now_ns % LEADER_PING_NS == 0 and process.received_ns > process.heard_ns:
            process.heard_ns = self.now_ns
        if process.questions or self.now_ns - process.pinged_ns >= CLIENT_PING_NS:
            process.received_ns = process.pinged_ns = self.now_ns
        for asked_ns in process.questions:
            answer = SessionConfirmed(asked_ns, process.connected_ns, TIMEOUT_NS)
            process.answers.append(answer)
        process.questions.clear()
        if self.now_ns >= process.deaf_until_ns:
            for answer in process.answers:
                self._handle(broker, answer)
            process.answers.clear()

    def _runs(self, process: Process) -> bool:
        return self.now_ns >= process.paused_until_ns

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
            if not process.leased or self.now_ns < process.lease_until_ns
            else 0
            for broker, process in self.processes.items()
        }

    def check(self) -> None:
        """No more is in force than the largest limit that some process goes by."""
        in_force = self.in_force()
        ceiling = max([self.limit, *self.known_limits.values()])
        assert sum(in_force.values()) <= ceiling, f"{in_force} of {ceiling}"

    def _counted(self, process: Process) -> TrafficCounted:
        return TrafficCounted((self.traffic(process, GROUP, process.demand),))

    def traffic(self, process: Process, group: str, demand: int) -> Traffic:
        """The traffic of a group that a process counts in a step."""
        limit = process.state.limits().get(group, Rates()).publish_messages or 0
        return Traffic(
            group,
            MonitoringClass.PUBLISH,
            messages=min(demand, limit) * STEP_NS // 1_000_000_000,
            messages_held_ns=STEP_NS if demand > limit else 0,
            participants=process.participants,
        )

    def _groups(self) -> GroupsChanged:
        rates = Rates(publish_messages=self.limit)
        return GroupsChanged((ResourceGroup(GROUP, rates, overshoot_policy="strict"),))

    def _escrow(self) -> EscrowChanged:
        return EscrowChanged(() if self.escrow_record is None else (self.escrow_record,))

    def _membership(self) -> MembersChanged:
        return MembersChanged(tuple(sorted(self.members.values())))

    def _tell(self, event: Event) -> None:
        for process in self.processes.values():
            process.unseen.append(event)

    def _handle(self, broker: str, event: Event) -> None:
        state = self.processes[broker].state
        instructions = state.handle(event, self.now_ns)
        if instructions or not isinstance(event, TrafficCounted):  # others change the meters alone
            state.validate()
        for instruction in instructions:
            self._carry_out(broker, instruction)
        self.check()

    def _carry_out(self, broker: str, instruction: Instruction) -> None:
        process = self.processes[broker]
        match instruction:
            case PublishUsageReport(report):
                others = [other for other in self.processes if other != broker]
                self.under_way += [(other, report) for other in others]
                del self.under_way[:-MAX_UNDER_WAY]
            case SetLocalLimits(_, _, leased):
                process.leased = leased
            case HoldLease(until_ns):
                process.lease_until_ns = until_ns
            case ConfirmSession(asked_ns) if process.cut_off_ns is None:
                process.questions.append(asked_ns)
            case WriteEscrow(record) if process.cut_off_ns is None:
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

    def _write(self, record: EscrowRecord) -> None:
        version = -1 if self.escrow_record is None else self.escrow_record.version
        if record.version == version:
            self.inherited += bool(record.claimed)
            self.escrow_record = replace(record, generation=1, version=version + 1)
            self._tell(self._escrow())

    def _join(self, broker: str) -> None:
        self.registrations += 1
        member = Member(broker, self.registrations)
        self.expires_ns.pop(self.members.get(broker, member), None)
        self.members[broker] = member
        self.processes[broker].registration = member
        self._tell(self._membership())
        self._handle(broker, MembershipJoined(member.incarnation))
