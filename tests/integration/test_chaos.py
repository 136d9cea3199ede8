"""The bench of `make chaos` in short, and that it finds what is planted for it to find."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.chaos.checker.verdict import RunVerdict, judge
from deploy.chaos.run import ChaosRun
from deploy.chaos.schedule import of_names
from deploy.chaos.testbed import Testbed
from deploy.local.cluster import Cluster
from deploy.local.sidecars import PROGRAM

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600), pytest.mark.verify]

SEED = 20
#: None of them takes a broker away, which the tests beside this one need.
MISHAPS = ("gate-reset", "zookeeper-reset", "sidecar-kill")
NATIVE_MISHAPS = ("sidecar-kill", "zookeeper-reset", "bus-reset")
LONGEST_S = 240.0


def play(
    cluster: Cluster,
    directory: Path,
    policy: str,
    mishaps: Sequence[str],
    program: Sequence[str] = PROGRAM,
    *,
    path: str = "gate",
) -> RunVerdict:
    """Run these mishaps and judge what was seen; what happens is printed for a failure."""
    planned = of_names(SEED, mishaps, [broker.name for broker in cluster.brokers])
    with Testbed(cluster, directory, policy, SEED, program, path=path) as testbed:
        return judge(ChaosRun(testbed, print).play(planned, time.monotonic() + LONGEST_S))


def test_nothing_is_lost_exceeded_or_left_dead_after_a_handful_of_mishaps(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A gate that its broker refuses, a sidecar that ZooKeeper refuses, one that is killed."""
    verdict = play(cluster, tmp_path, "balanced", MISHAPS)

    assert verdict.findings == (), verdict
    assert [after_s for _, after_s in verdict.recovered if after_s is None] == []


def test_planted_faults_are_found(cluster: Cluster, tmp_path: Path) -> None:
    """The checker finds a SEND that each gate drops, and limits that no broker granted."""
    program = (str(Path(__file__).with_name("planted_faults.py")),)
    verdict = play(cluster, tmp_path, "strict", (), program)

    assert {"reordered", "exceeded", "strict"} <= {found.rule for found in verdict.findings}, (
        verdict
    )


def test_brokers_own_limiters_keep_the_limit_through_a_handful_of_mishaps(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Sidecars that are killed, or refused by ZooKeeper or the bus, stop no client."""
    verdict = play(cluster, tmp_path, "balanced", NATIVE_MISHAPS, path="native")

    assert verdict.findings == (), verdict
    assert [after_s for _, after_s in verdict.recovered if after_s is None] == []


def test_records_that_forget_the_bucket_of_each_interval_are_found(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Brokers then let pass up to twice the limit; the checker of native runs can fail."""
    program = (str(Path(__file__).with_name("planted_native.py")),)
    verdict = play(cluster, tmp_path, "balanced", (), program, path="native")

    assert "exceeded" in {found.rule for found in verdict.findings}, verdict
