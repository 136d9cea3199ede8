"""Wrong use of `make chaos` is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.chaos.__main__ import main


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SEED", "seven", "SEED is 'seven'"),
        ("MINUTES", "a few", "MINUTES is 'a few'"),
        ("MINUTES", "0", "MINUTES is 0"),
        ("POLICY", "loose", "POLICY is 'loose': use balanced, eager, strict"),
        ("MISHAPS", "flood,earthquake", "MISHAPS names earthquake: use"),
        ("MISHAPS", "0", "MISHAPS is 0"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    name: str,
    value: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Exit code 2, the variable, and what would do."""
    monkeypatch.setenv(name, value)

    assert main(["--state-dir", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
