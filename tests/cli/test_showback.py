"""``pulsar-quota showback``: refusals before anything is started."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from coordinator.cli.__main__ import app


def test_a_price_table_that_cannot_be_used_is_wrong_use(tmp_path: Path) -> None:
    """Exit code 2 with the file, the field and the fix, and nothing is written."""
    prices, out = tmp_path / "prices.toml", tmp_path / "out"
    prices.write_text('currency = "EUR"\n[publish]\nper_gb = -1\nper_million_messages = 0\n')
    command = ["showback", str(tmp_path), "--prices", str(prices), "--out", str(out)]
    result = CliRunner().invoke(app, command)

    assert result.exit_code == 2
    assert f"{prices}: publish.per_gb: write a number from 0" in result.stderr
    assert not out.exists()
