"""The demo's command line: what is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo.__main__ import main


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"POLICY": "stirct"}, "POLICY is 'stirct': use balanced, eager, strict."),
        (
            {"PULSAR": "newest"},
            "PULSAR is 'newest': use a version, such as 4.2.4, 4.0.7, 5.0.0-M1.",
        ),
        ({"ENFORCE": "nativ"}, "ENFORCE is 'nativ': use gate, native."),
        (
            {"ENFORCE": "native", "POLICY": "strict"},
            "POLICY=strict: brokers' own limiters cannot keep it; use balanced.",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_with_what_can(
    variables: dict[str, str],
    error: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Wrong use, and nothing was started."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["--state-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {error}\n"
    assert list(tmp_path.iterdir()) == []
