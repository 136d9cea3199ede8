"""Wrong use of `make chaos` is refused before anything is started."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.chaos.__main__ import main
from deploy.chaos.choices import chosen
from deploy.chaos.results import Result, Results


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    """Restore SIGTERM's handler, which the command line changes for the whole process."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SEED", "seven", "SEED is 'seven': a whole number is needed"),
        ("SEED", "1.5", "SEED is '1.5'"),
        ("SEEDS", "x", "SEEDS is 'x': numbers and ranges are needed, such as 1-100"),
        ("SEEDS", "1-", "SEEDS is '1-'"),
        ("SEEDS", "1,5-1", "SEEDS has 5-1: a range goes upwards, as 1-5"),
        ("SEEDS", "1-99999999", "SEEDS is '1-99999999': 10,000 are possible at most"),
        ("MINUTES", "a few", "MINUTES is 'a few'"),
        ("MINUTES", "0", "MINUTES is 0"),
        ("MINUTES", "nan", "MINUTES is 'nan'"),
        ("MINUTES", "-1", "MINUTES is '-1': a number of 0 or more is needed"),
        ("EVERY", "often", "EVERY is 'often'"),
        ("POLICY", "loose", "POLICY is 'loose': use balanced, eager, strict"),
        ("MISHAPS", "flood,earthquake", "MISHAPS names earthquake: with ENFORCE=gate use"),
        ("MISHAPS", "owner-kill", "MISHAPS names owner-kill: with ENFORCE=gate use"),
        ("ENFORCE", "both", "ENFORCE is 'both': use gate, native"),
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


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("POLICY", "strict", "POLICY=strict: brokers' own limiters cannot keep it"),
        ("MISHAPS", "gate-kill", "MISHAPS names gate-kill: with ENFORCE=native use"),
    ],
)
def test_what_needs_a_gate_is_refused_where_there_is_none(
    variable: str,
    value: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Before anything is started."""
    monkeypatch.setenv("ENFORCE", "native")
    monkeypatch.setenv(variable, value)

    assert main(["--state-dir", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_one_seed_and_many_are_not_asked_for_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The request would be ambiguous."""
    monkeypatch.setenv("SEED", "1")
    monkeypatch.setenv("SEEDS", "1-3")

    assert main(["--state-dir", str(tmp_path)]) == 2
    assert "SEED and SEEDS are both given" in capsys.readouterr().err


def test_results_that_are_none_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before anything is started."""
    file = tmp_path / "results.jsonl"
    file.write_text("a letter\n")

    assert main(["--state-dir", str(tmp_path), "--results", str(file)]) == 2
    assert "line 1 is no result" in capsys.readouterr().err


def test_nothing_is_started_when_every_run_was_clean_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A later call with the same seeds has nothing left to do."""
    monkeypatch.setenv("SEEDS", "1-2")
    results = Results(tmp_path / "results.jsonl")
    for choice in chosen():
        results.add(
            Result(
                seed=choice.seed,
                policy=choice.policy,
                planned=choice.planned,
                happened=len(choice.planned),
                findings=(),
                failure=None,
                looked_at="all of it",
                seconds=80.0,
                version="abc1234",
                ended_at="2026-01-01T00:00:00+00:00",
            )
        )

    assert main(["--state-dir", str(tmp_path)]) == 0
    assert "2 of 2 runs are clean, with 8 mishaps" in capsys.readouterr().out
