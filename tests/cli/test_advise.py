"""``pulsar-quota advise``: refusals before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli.__main__ import app


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--throttled", "11"], "write a part of the time above 0 and up to 10%"),
        (["--throttled", "0"], "write a part of the time above 0 and up to 10%"),
        (["--replay", "-1"], "greater than or equal to 0"),
        (["--out", "s3://key:secret@bucket/x"], "credentials do not belong into a URL"),
        ([], "no row of table admitted and configuration"),
    ],
)
def test_what_cannot_be_advised_is_wrong_use(options: list[str], said: str, tmp_path: Path) -> None:
    """Exit code 2 with the reason, and no secret is shown."""
    result = CliRunner().invoke(app, ["advise", str(tmp_path), *options])

    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "secret" not in result.stderr
