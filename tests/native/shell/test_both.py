"""A gate and the broker's own limiter together."""

from __future__ import annotations

from typing import cast

from coordinator.core.model import Rates
from coordinator.native.shell.actuator import NativeActuator
from coordinator.native.shell.both import GateAndNative
from tests.app.sidecars import RecordingGate


def test_the_limit_of_a_scalable_topic_is_the_gates_alone() -> None:
    """Brokers limit groups of namespaces, and a record of such a name would be none of theirs."""
    gate, native = RecordingGate(), RecordingGate()
    both = GateAndNative(gate, cast("NativeActuator", native))

    both.set_limits("orders", Rates(1))
    both.set_limits("topic://shop/eu/orders", Rates(2))

    assert gate.limits == {"orders": Rates(1), "topic://shop/eu/orders": Rates(2)}
    assert native.limits == {"orders": Rates(1)}
    both.remove_limits("topic://shop/eu/orders")
    both.remove_limits("orders")
    assert gate.limits == native.limits == {}
