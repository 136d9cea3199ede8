"""`pulsar-quota config`: an example, and a check that starts nothing."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli.__main__ import app
from coordinator.config.reference import example


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration as `config example` prints it."""
    path = tmp_path / "sidecar.toml"
    path.write_text(example(), encoding="utf-8")
    return path


def test_the_example_is_printed_and_accepted(file: Path) -> None:
    """One command prints the example, and the other one accepts it."""
    assert CliRunner().invoke(app, ["config", "example"]).stdout == example()

    result = CliRunner().invoke(app, ["config", "check", str(file), "--set", "broker_id=b-7"])

    assert (result.exit_code, "b-7" in result.stdout) == (0, True)


def test_a_refused_configuration_ends_with_2(file: Path) -> None:
    """The message names the key, the reason and the fix."""
    result = CliRunner().invoke(app, ["config", "check", str(file), "--set", "burst_seconds=99"])

    assert result.exit_code == 2
    assert "burst_seconds" in result.output
