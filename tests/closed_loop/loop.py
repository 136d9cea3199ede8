"""Several brokers, each with a real core and a real gate: what is limited changes what is wanted.

The cores talk as in tests/core/cluster.py; in place of its fixed demand there are senders, whose frames
the gate's own limiters and fair queue admit. Time passes in steps of 5 ms, the gate's wake interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.core.events import ParticipantsChanged
from coordinator.core.instructions import HoldLease, Instruction, SetLocalLimits
from coordinator.core.model import MonitoringClass
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.counters import NoListener
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.metering import WAKE_INTERVAL_NS
from tests.closed_loop.senders import Sender
from tests.core.cluster import GROUP, STEP_NS, Cluster


class Gate:
    """One broker's limiters, queue and senders."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.queue = AdmissionQueue()
        self.table = GroupTable(NoListener())  # the loop tells of participants itself
        group = self.table.group(GROUP)
        group.publish.join("topic")
        sender.needed = (group.publish_limiter,)

    def step(self, now_ns: int) -> None:
        """Release what may pass by now, and let the sender send."""
        self.sender.tell_time(now_ns)
        self.queue.serve(now_ns)
        self.sender.send(self.queue, now_ns)


@dataclass
class Loop(Cluster):
    """Cores over gates."""

    gates: dict[str, Gate] = field(default_factory=dict)

    def start_senders(self, senders: Mapping[str, Sender]) -> None:
        """Start a broker for each sender, and connect it."""
        self.gates = {broker: Gate(sender) for broker, sender in senders.items()}
        for broker in senders:
            self.start(broker)
            self.send(broker, ParticipantsChanged(GROUP, MonitoringClass.PUBLISH, 1))

    def passed(self) -> dict[str, int]:
        """Return the messages of each broker's sender that have passed."""
        return {broker: gate.sender.passed for broker, gate in self.gates.items()}

    def rates(self, seconds: int) -> dict[str, float]:
        """Let time pass; how many messages a second passed at each broker meanwhile."""
        before = self.passed()
        self.run(seconds)
        return {broker: (n - before[broker]) / seconds for broker, n in self.passed().items()}

    def _step(self) -> None:
        for _ in range(STEP_NS // WAKE_INTERVAL_NS):
            self.now_ns += WAKE_INTERVAL_NS
            for gate in self.gates.values():
                gate.step(self.now_ns)
        for broker, gate in self.gates.items():
            self.count(broker, gate.table.collect(self.now_ns))

    def _carry_out(self, broker: str, instructions: list[Instruction]) -> None:
        gate = self.gates[broker]
        for instruction in instructions:
            if isinstance(instruction, HoldLease):
                for leased in gate.table.hold_lease(instruction.until_ns, self.now_ns):
                    gate.queue.serve_limiter(leased.publish_limiter, self.now_ns)
            if isinstance(instruction, SetLocalLimits):
                group = gate.table.set_limits(
                    instruction.group,
                    instruction.limits,
                    self.now_ns,
                    leased=instruction.leased,
                )
                gate.queue.serve_limiter(group.publish_limiter, self.now_ns)
        super()._carry_out(broker, instructions)
