"""``pulsar-quota report``: refusals, and what stands in for Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli.__main__ import app


@pytest.mark.java
def test_an_empty_directory_is_wrong_use(tmp_path: Path) -> None:
    """Exit code 2 with the reason, and nothing is written."""
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(out)])

    assert result.exit_code == 2
    assert "no row of table admitted and configuration" in result.stderr
    assert not out.exists()


def test_a_condition_on_no_figure_is_wrong_use(tmp_path: Path) -> None:
    """The error is JSON on request."""
    command = ["report", str(tmp_path), "--out", str(tmp_path), "--fail-on", "speed<=1", "--json"]
    result = CliRunner().invoke(app, command)

    assert result.exit_code == 2
    assert json.loads(result.stderr)["reason"].startswith("'speed' is no figure")


def test_without_spark_the_fix_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: a sidecar does not need it."""
    monkeypatch.setitem(sys.modules, "spark_jobs.convergence_report", None)
    result = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path)])

    assert result.exit_code == 1
    assert "pip install '.[spark]' in the repository" in result.stderr
    assert "'pulsar-quota[spark]' where it is installed" in result.stderr
