"""Several real cores joined by a fake bus and a fake gate: each event is seen on every side.

The bus delivers a report to all brokers at once, or loses it for one of them when the test's dice say so;
the gate admits what the local limit allows of a fixed demand, and time passes in steps of 50 ms. There
is no clock and no other randomness: those are the simulator's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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
    Instruction,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    WriteEscrow,
)
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    Dimension,
    EscrowRecord,
    ExactRates,
    Member,
    MonitoringClass,
    Rate,
    Rates,
    ResourceGroup,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic

STEP_NS = 50_000_000
SECOND_NS = 1_000_000_000
GROUP = "orders"
ORDERS = ResourceGroup(GROUP, Rates(publish_messages=3000))


def activate(state: CoordinatorState) -> None:
    """Bring a lone sidecar, b1, to ACTIVE."""
    state.handle(ConnectionChanged(ConnectionState.CONNECTED), 0)
    state.handle(GroupsChanged((ORDERS,)), 0)
    state.handle(BrokerAvailabilityChanged(answering=True), 0)
    state.handle(MembershipJoined(7), 0)
    state.handle(MembersChanged((Member("b1", 7),)), 0)
    assert state.lifecycle is Lifecycle.ACTIVE


def count(state: CoordinatorState, traffic: tuple[Traffic, ...], now_ns: int) -> list[Instruction]:
    """Bring counts to a core, and a Tick if it is due, as the runner does."""
    instructions = state.handle(TrafficCounted(traffic), now_ns)
    if state.tick_due_ns <= now_ns:
        instructions += state.handle(Tick(), now_ns)
    return instructions


@dataclass
class Cluster:
    """Cores by broker, their demand, and what each admitted in every step."""

    limit: Rate
    demand: dict[str, int] = field(default_factory=dict)
    #: The group's second limit, and how many bytes a broker's messages have; 1 unless said otherwise.
    bytes_limit: int | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    #: What a broker's gate loses of its tokens by standing still, in thousandths.
    stalled_permille: dict[str, int] = field(default_factory=dict)
    #: On how many topics a broker's producers are; one unless said otherwise.
    topics: dict[str, int] = field(default_factory=dict)
    states: dict[str, CoordinatorState] = field(default_factory=dict)
    now_ns: int = 0
    policy: str = "balanced"
    law: str = "max-min"
    weights: str = "equal"
    partition_policy: str = "hold"
    enforcement: str = "enforce"
    burst_seconds: int = 0
    small_report_entries: int = 16
    complete_report_rounds: int = 300
    #: The configuration version of the definition.
    version: int = 0
    #: Brokers that ZooKeeper does not answer, whatever their connection says.
    unconfirmed: set[str] = field(default_factory=set)
    #: Brokers whose bus is cut.
    deaf: set[str] = field(default_factory=set)
    #: What becomes of a broker's reports on their way out: how a lying sidecar is made.
    distort: dict[str, Callable[[UsageReport], UsageReport]] = field(default_factory=dict)
    #: Whether a report gets lost on its way to one receiver.
    loses: Callable[[], bool] = lambda: False
    admitted: list[dict[str, float]] = field(default_factory=list)
    reports: list[UsageReport] = field(default_factory=list)
    _members: dict[str, Member] = field(default_factory=dict)
    escrow_record: EscrowRecord | None = None
    #: How often the escrow record was written.
    escrow_writes: int = 0
    #: When each sidecar's connection to ZooKeeper was made.
    connected_ns: dict[str, int] = field(default_factory=dict)
    _incarnations: int = 0
    #: Messages that began in a step and end in a later one, in billionths.
    _carried_ns: dict[str, int] = field(default_factory=dict)

    def start(self, broker: str, demand: int = 0) -> CoordinatorState:
        """Start a sidecar whose broker answers and whose ZooKeeper is connected."""
        state = CoordinatorState(
            CoreSettings(
                broker=broker,
                small_report_entries=self.small_report_entries,
                complete_report_rounds=self.complete_report_rounds,
            )
        )
        self.states[broker] = state
        self.send(broker, ConnectionChanged(ConnectionState.CONNECTED))
        self.send(broker, self.escrow())
        self.tell_group(broker)
        self.send(broker, BrokerAvailabilityChanged(answering=True))
        self.want(broker, demand)
        return state

    def settle(self, *demands: int, seconds: float = 3) -> None:
        """Start b1, b2 and so on with these demands, and let time pass."""
        for number, demand in enumerate(demands, start=1):
            self.start(f"b{number}", demand)
        self.run(seconds)

    def group(self) -> ResourceGroup:
        """The group's definition as it stands."""
        limits = ExactRates.from_mapping(
            {Dimension.PUBLISH_MESSAGES: self.limit, Dimension.PUBLISH_BYTES: self.bytes_limit}
        )
        return ResourceGroup(
            GROUP,
            limits.whole,
            fractions=limits.fractions,
            law=self.law,
            weights=self.weights,
            overshoot_policy=self.policy,
            partition_policy=self.partition_policy,
            enforcement=self.enforcement,
            configuration_version=self.version,
            burst_seconds=self.burst_seconds,
        )

    def tell_group(self, broker: str) -> None:
        """Let one sidecar read the definition as it stands."""
        self.send(broker, GroupsChanged((self.group(),)))

    def escrow(self) -> EscrowChanged:
        """The records as they stand."""
        return EscrowChanged(() if self.escrow_record is None else (self.escrow_record,))

    def write_escrow(self, record: EscrowRecord) -> None:
        """Compare-and-set; tell every core if it succeeds."""
        version = -1 if self.escrow_record is None else self.escrow_record.version
        if record.version != version:
            return
        self.escrow_record = replace(record, generation=1, version=version + 1)
        self.escrow_writes += 1
        for broker in list(self.states):
            self.send(broker, self.escrow())

    def want(self, broker: str, demand: int) -> None:
        """Change a broker's demand; a producer connects with the first and leaves with the last."""
        before = self.demand.get(broker, 0)
        self.demand[broker] = demand
        if bool(before) != bool(demand):
            self.send(
                broker, ParticipantsChanged(GROUP, MonitoringClass.PUBLISH, 1 if demand else 0)
            )

    def set_limit(self, limit: Rate) -> None:
        """Change the group's limit at every sidecar at once."""
        self.limit = limit
        self._tell_group()

    def set_weights(self, weights: str) -> None:
        """Change how brokers count at every sidecar at once."""
        self.weights = weights
        self._tell_group()

    def _tell_group(self) -> None:
        for broker in self.states:
            self.tell_group(broker)

    def kill(self, broker: str) -> None:
        """A sidecar and its broker vanish; membership does not know it yet."""
        del self.states[broker]
        self.demand[broker] = 0

    def end_session(self, broker: str) -> None:
        """Membership drops a broker."""
        del self._members[broker]
        self.tell_members()

    def send(self, broker: str, event: Event) -> None:
        """Give one core an event and carry out what it says."""
        if event == ConnectionChanged(ConnectionState.CONNECTED):
            self.connected_ns[broker] = self.now_ns
        state = self.states[broker]
        instructions = state.handle(event, self.now_ns)
        if instructions or not isinstance(event, TrafficCounted):  # others change the meters alone
            state.validate()
        self.handled(broker, event)
        self._carry_out(broker, instructions)

    def count(self, broker: str, traffic: tuple[Traffic, ...]) -> None:
        """Bring counts to a broker's core, and a Tick if it is due."""
        self.send(broker, TrafficCounted(traffic))
        if self.states[broker].tick_due_ns <= self.now_ns:
            self.send(broker, Tick())

    def handled(self, broker: str, event: Event) -> None:
        """Called with every event that a core has handled; does nothing."""

    def tell_members(self) -> None:
        """Tell every core who is alive."""
        members = tuple(sorted(self._members.values()))
        for broker in list(self.states):
            self.send(broker, MembersChanged(members))

    def limit_of(self, broker: str) -> int:
        """A broker's local limit in force, messages per second."""
        rates = self.states[broker].limits().get(GROUP, Rates())
        return rates.publish_messages or 0

    def validate(self) -> None:
        """Check the invariants of every core."""
        for state in self.states.values():
            state.validate()

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds * SECOND_NS / STEP_NS)):
            self._step()

    def _step(self) -> None:
        self.now_ns += STEP_NS
        admitted: dict[str, float] = {}
        for broker in list(self.states):
            demand, size = self.demand.get(broker, 0), self.sizes.get(broker, 1)
            limit, by_bytes = self.limit_of(broker), self._messages_of_bytes(broker, size)
            if self.enforcement == "observe":
                limit = by_bytes = demand
            throttled = demand > min(limit, by_bytes)
            working = 1000 - self.stalled_permille.get(broker, 0) if throttled else 1000
            admitted[broker] = min(demand, limit, by_bytes) * working / 1000
            carried = self._carried_ns.get(broker, 0) + round(admitted[broker] * STEP_NS)
            messages, self._carried_ns[broker] = divmod(carried, SECOND_NS)
            traffic = Traffic(
                GROUP,
                MonitoringClass.PUBLISH,
                messages=messages,
                bytes=messages * size,
                messages_held_ns=STEP_NS if throttled and limit <= by_bytes else 0,
                bytes_held_ns=STEP_NS if throttled and by_bytes < limit else 0,
                participants=1 if demand else 0,
                topics=self.topics.get(broker, 1) if demand else 0,
            )
            self.count(broker, (traffic,) if demand else ())
        self.admitted.append(admitted)

    def _messages_of_bytes(self, broker: str, size: int) -> int:
        rates = self.states[broker].limits().get(GROUP, Rates())
        return sys.maxsize if rates.publish_bytes is None else rates.publish_bytes // size

    def _carry_out(self, broker: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case PublishUsageReport(told):
                    distort = self.distort.get(broker)
                    report = told if distort is None else distort(told)
                    self.reports.append(report)
                    if broker in self.deaf:
                        continue
                    for other in list(self.states):
                        if other not in self.deaf and (other == broker or not self.loses()):
                            self.send(other, UsageReportReceived(report))
                case JoinMembership():
                    self._incarnations += 1
                    self._members[broker] = Member(broker, self._incarnations)
                    # All brokers see the registration before its first report: no early.py here.
                    self.tell_members()
                    self.send(broker, MembershipJoined(self._incarnations))
                case ConfirmSession(asked_ns) if broker not in self.unconfirmed:
                    timeout_ns = self.states[broker].settings.session_timeout_ns
                    connected_ns = self.connected_ns[broker]
                    self.send(broker, SessionConfirmed(asked_ns, connected_ns, timeout_ns))
                case WriteEscrow(record):
                    self.write_escrow(record)
                case LeaveMembership():
                    self._members.pop(broker, None)
                    self.tell_members()
                case _:
                    pass
