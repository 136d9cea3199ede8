"""The demo's last step: the report of what was recorded, or the reason why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo import report
from deploy.demo.targets import GATE, NATIVE
from deploy.local.errors import LocalClusterError
from spark_jobs.targets import parse


def test_the_demos_targets_are_conditions_of_the_report() -> None:
    """Each of them names a figure that the report has; natively its seconds are none to judge."""
    assert report.conditions_of(NATIVE) == ""
    assert [condition.name for condition in parse(report.conditions_of(GATE))] == [
        "settle_s",
        "peak_1s",
        "jain",
        "min_share",
        "reclaim_s",
    ]


@pytest.mark.slow
def test_a_run_that_recorded_nothing_says_so(tmp_path: Path) -> None:
    """It leaves no report of an earlier run that could be taken for its own."""
    recorded, output = tmp_path / "state" / "recorded", tmp_path / "out"
    recorded.mkdir(parents=True)
    stale = output / "report" / "index.html"
    stale.parent.mkdir(parents=True)
    stale.write_text("of an earlier run")

    with pytest.raises(LocalClusterError, match="no row of table admitted and configuration"):
        report.make(recorded, output, "")
    assert not stale.exists()
