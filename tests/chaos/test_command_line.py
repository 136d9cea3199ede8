"""Wrong use of `make chaos` is refused before anything is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.chaos.__main__ import main
from deploy.chaos.choices import chosen
from deploy.chaos.results import Results
from tests.chaos.test_results import CLEAN


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SEED": "seven"}, "SEED is 'seven': a whole number is needed"),
        ({"SEED": "1.5"}, "SEED is '1.5'"),
        ({"SEEDS": "x"}, "SEEDS is 'x': numbers and ranges are needed, such as 1-100"),
        ({"SEEDS": "1-"}, "SEEDS is '1-'"),
        ({"SEEDS": "1,5-1"}, "SEEDS has 5-1: a range goes upwards, as 1-5"),
        ({"SEEDS": "1-99999999"}, "SEEDS is '1-99999999': 10,000 are possible at most"),
        ({"SEED": "1", "SEEDS": "1-3"}, "SEED and SEEDS are both given"),
        ({"MINUTES": "a few"}, "MINUTES is 'a few'"),
        ({"MINUTES": "0"}, "MINUTES is 0"),
        ({"MINUTES": "nan"}, "MINUTES is 'nan'"),
        ({"MINUTES": "-1"}, "MINUTES is '-1': a number of 0 or more is needed"),
        ({"EVERY": "often"}, "EVERY is 'often'"),
        ({"POLICY": "loose"}, "POLICY is 'loose': use balanced, eager, strict"),
        ({"MISHAPS": "flood,earthquake"}, "MISHAPS names earthquake: with ENFORCE=gate use"),
        ({"MISHAPS": "owner-kill"}, "MISHAPS names owner-kill: with ENFORCE=gate use"),
        ({"MISHAPS": "0"}, "MISHAPS is 0"),
        ({"ENFORCE": "both"}, "ENFORCE is 'both': use gate, native"),
        (
            {"ENFORCE": "native", "POLICY": "strict"},
            "POLICY=strict: brokers' own limiters cannot keep it",
        ),
        (
            {"ENFORCE": "native", "MISHAPS": "gate-kill"},
            "MISHAPS names gate-kill: with ENFORCE=native use",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    variables: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Exit code 2, the variable, and what would do, before anything is started."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert main(["--state-dir", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


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
        planned, happened = choice.planned, len(choice.planned)
        results.add(
            replace(
                CLEAN, seed=choice.seed, policy=choice.policy, planned=planned, happened=happened
            )
        )

    assert main(["--state-dir", str(tmp_path)]) == 0
    assert "2 of 2 runs are clean, with 8 mishaps" in capsys.readouterr().out
