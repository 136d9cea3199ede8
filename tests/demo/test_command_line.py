"""The demo's command line: what is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo.__main__ import main


def test_a_policy_that_there_is_not_is_refused_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Wrong use, and nothing was started."""
    monkeypatch.setenv("POLICY", "stirct")

    assert main(["--state-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "error: POLICY is 'stirct': use balanced, eager, strict.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_version_that_is_none_is_refused_with_those_that_were_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Wrong use, and nothing was started."""
    monkeypatch.setenv("PULSAR", "newest")

    assert main(["--state-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "error: PULSAR is 'newest': use a version, such as 4.2.4, 4.0.7, 5.0.0-M1.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"ENFORCE": "nativ"}, "ENFORCE is 'nativ': use gate, native."),
        (
            {"ENFORCE": "native", "POLICY": "strict"},
            "POLICY=strict: brokers' own limiters cannot keep it; use balanced.",
        ),
    ],
)
def test_what_cannot_be_played_natively_is_refused(
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
