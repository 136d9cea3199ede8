"""The bench of the API compares equal work."""

from __future__ import annotations

import pytest

from benchmarks.api import BenchTurn, Felt, compared


def felt(millis: float) -> Felt:
    """A phase in which everything took as long."""
    return Felt(millis, millis, millis)


TURNS = [
    BenchTurn(quiet=felt(1.0), elsewhere=felt(1.5), here=felt(1.6)),
    BenchTurn(quiet=felt(1.2), elsewhere=felt(1.5), here=felt(1.7)),
    BenchTurn(quiet=felt(1.1), elsewhere=felt(3.0), here=felt(7.0)),
]


def test_what_requests_add_is_against_the_same_requests_elsewhere() -> None:
    """By the median turn, so that one that was disturbed does not count; no more than the noise."""
    time, added = compared("gate_latency_p50", TURNS, is_bounded=True)

    assert time.value == 1.7
    assert time.peers == {"requests to another sidecar": 1.5, "without requests": 1.1}
    assert added.value == pytest.approx(0.2)
    assert added.peers == {"against no requests": pytest.approx(0.6), "noise": 0.2}
    assert (added.target, added.better) == (0.2, "lower")


def test_what_no_traffic_feels_is_told_without_a_target() -> None:
    """Only rounds wait for the coordinator's loop."""
    _, added = compared("loop_late_p99", TURNS)

    assert (added.peers["noise"], added.target) == (0.2, None)
