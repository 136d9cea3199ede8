"""Traffic that goes round a gate and is charged: all ways together keep the limit, in real cores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from coordinator.core.instructions import Instruction, SetLocalLimits
from coordinator.core.model import Rates
from coordinator.gate.limits.metering import WAKE_INTERVAL_NS
from coordinator.reconciliation.engine.account import Rate
from coordinator.reconciliation.engine.charging import Charges
from tests.closed_loop.loop import Loop
from tests.closed_loop.senders import Sender, steady
from tests.core.cluster import GROUP, STEP_NS

LIMIT = 1000


@dataclass
class ChargedLoop(Loop):
    """Gates that are charged with traffic that goes round them."""

    charges: dict[str, Charges] = field(default_factory=dict)

    def escape(self, broker: str, rate: float) -> None:
        """Charge a broker's gate with this rate from now on."""
        self._charges(broker).set_rates({GROUP: Rate(rate)} if rate else {})
        limits = self.states[broker].limits()[GROUP]
        super()._carry_out(broker, [SetLocalLimits(GROUP, self._left(broker, limits))])

    def _step(self) -> None:
        for _ in range(STEP_NS // WAKE_INTERVAL_NS):
            self.now_ns += WAKE_INTERVAL_NS
            for gate in self.gates.values():
                gate.step(self.now_ns)
        for broker, gate in self.gates.items():
            counted = gate.table.collect(self.now_ns)
            charged = self._charges(broker).charge(counted, self.now_ns)
            self.count(broker, charged)

    def _carry_out(self, broker: str, instructions: list[Instruction]) -> None:
        super()._carry_out(
            broker,
            [
                replace(each, limits=self._left(broker, each.limits))
                if isinstance(each, SetLocalLimits)
                else each
                for each in instructions
            ],
        )

    def _left(self, broker: str, limits: Rates) -> Rates:
        return self._charges(broker).set_limits(GROUP, limits)

    def _charges(self, broker: str) -> Charges:
        return self.charges.setdefault(broker, Charges())


def loop_of(**wanted: int) -> ChargedLoop:
    """Brokers whose senders want these messages per second, once they have settled."""
    loop = ChargedLoop(limit=LIMIT)
    loop.start_senders(
        {broker: Sender(steady(rate) if rate else iter(())) for broker, rate in wanted.items()}
    )
    loop.run(20)
    return loop


def test_all_ways_together_keep_the_limit() -> None:
    """The gate passes less by the escaped rate, at a broker that takes half."""
    loop = loop_of(b0=5_000, b1=5_000)
    loop.escape("b0", 200.0)
    loop.run(10)
    assert loop.rates(30) == pytest.approx({"b0": 300, "b1": 500}, rel=0.03)


def test_a_broker_with_escaped_traffic_alone_takes_part() -> None:
    """The others leave it that much, although its gate passes nothing."""
    loop = loop_of(b0=0, b1=5_000)
    assert loop.rates(30)["b1"] == pytest.approx(LIMIT, rel=0.03)
    loop.escape("b0", 200.0)
    loop.run(20)
    assert loop.rates(30)["b1"] == pytest.approx(800, rel=0.06)


def test_the_gate_gives_way_no_further_than_to_nothing() -> None:
    """The other broker keeps its half: the limit is exceeded by what the gate cannot hold back."""
    loop = loop_of(b0=5_000, b1=5_000)
    loop.escape("b0", 2_000.0)
    loop.run(10)
    assert loop.rates(30) == pytest.approx({"b0": 0, "b1": 500}, rel=0.03, abs=2)
    assert not list(loop.states["b1"].suspects.all())


def test_the_gate_gets_its_part_back_when_the_charge_ends() -> None:
    """Within seconds."""
    loop = loop_of(b0=5_000, b1=5_000)
    loop.escape("b0", 400.0)
    loop.run(20)
    loop.escape("b0", 0.0)
    loop.run(10)
    assert loop.rates(30) == pytest.approx({"b0": 500, "b1": 500}, rel=0.03)
