"""The puppets that measure the gate deliver every message, with or without a gate between."""

from __future__ import annotations

import pytest
import uvloop

from benchmarks.gate_broker import LoadOutcome, _outcome
from benchmarks.gate_load import FrameLoad, consume, publish
from benchmarks.gate_process import TENANT, free_port, running

LOAD = FrameLoad(f"persistent://{TENANT}/limited/t", 100, 3, 2_000, window=50)


@pytest.mark.parametrize("kind", ["gate", "bare"])
def test_a_load_passes_and_costs_processor_time(kind: str) -> None:
    """Published and consumed to the last frame, through a gate with limits and through nothing."""
    upstream = free_port()
    with running(kind, free_port(), upstream) as process:
        before = process.processor_s()
        uvloop.run(publish(LOAD, process.port, upstream))
        uvloop.run(consume(LOAD, process.port, upstream))

        assert process.processor_s() > before
        assert process.resident_bytes() > 10**7


def test_the_load_tools_last_words_are_understood() -> None:
    """Its rate of sending counts its own end, too, and is not believed; an early end is an error."""
    said = (
        "INFO - Aggregated throughput stats --- 300235 records sent --- 14968.334 msg/s --- 116 Mbit/s\n"
        "INFO - Aggregated latency stats --- Latency: mean:  99.205 ms - med:  79.781 - 95pct: 300.155"
        " - 99pct: 390.829 - 99.9pct: 444.525"
    )
    received = (
        "INFO - Aggregated throughput stats --- 400000 records received --- 180069.1 msg/s ---"
    )

    assert _outcome(said) == LoadOutcome(30023.5, 99.205, 390.829)
    assert _outcome(received) == LoadOutcome(180069.1, 0.0, 0.0)
    with pytest.raises(RuntimeError, match="no such option"):
        _outcome("no such option")
