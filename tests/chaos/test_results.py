"""A series reads its results back and knows the runs that are left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.chaos.checker.history import Breach
from deploy.chaos.choices import Choice
from deploy.chaos.results import Result, Results, outcome, summary
from deploy.chaos.schedule import Planned
from deploy.local.errors import WrongUseError

PLANNED = (Planned("flood", "broker-1", 2.5), Planned("garbage", "broker-3", 5.0))
FIRST, SECOND = (Choice(seed, "balanced", 10.0, 0.0, PLANNED) for seed in (1, 2))
CLEAN = Result(
    seed=1,
    policy="balanced",
    planned=PLANNED,
    happened=2,
    findings=(),
    failure=None,
    looked_at="all of it",
    seconds=80.0,
    version="abc1234",
    ended_at="2026-01-01T00:00:00+00:00",
)
FOUND = replace(CLEAN, seed=2, findings=(Breach("lost", "one"), Breach("end", "and another")))


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """By a later call, which has the same file."""
    file = tmp_path / "new" / "results.jsonl"
    results = Results(file)
    results.add(CLEAN)
    results.add(FOUND)

    assert Results(file).of([SECOND, FIRST]) == [FOUND, CLEAN]


def test_only_what_was_clean_when_it_was_last_played_is_left_out(tmp_path: Path) -> None:
    """A finding is played again, also one of a run that had been clean."""
    results = Results(tmp_path / "results.jsonl")
    assert results.missing([FIRST, SECOND]) == [FIRST, SECOND]

    results.add(CLEAN)
    results.add(FOUND)
    assert results.missing([FIRST, SECOND]) == [SECOND]

    results.add(replace(FOUND, findings=()))
    results.add(replace(CLEAN, failure="a client died"))
    assert results.missing([FIRST, SECOND]) == [FIRST]


def test_the_same_seed_with_other_mishaps_another_policy_or_no_gates_is_another_run(
    tmp_path: Path,
) -> None:
    """A seed stands for the whole run."""
    results = Results(tmp_path / "results.jsonl")
    results.add(CLEAN)

    others = [
        replace(FIRST, planned=PLANNED[:1]),
        replace(FIRST, policy="strict"),
        replace(FIRST, path="native"),
    ]
    assert results.missing(others) == others


def test_the_outcome_says_what_was_found_and_what_was_left_out() -> None:
    """A run that failed is not clean: its findings are unknown."""
    cut = replace(CLEAN, happened=1)
    failed = replace(CLEAN, failure="a client died", happened=0)

    assert [outcome(each) for each in (CLEAN, FOUND, cut, failed)] == [
        "clean",
        "FOUND end, lost",
        "clean after 1 of 2 mishaps",
        "failed",
    ]
    assert summary([CLEAN, FOUND, cut, failed]) == "2 of 4 runs are clean, with 3 mishaps"


@pytest.mark.parametrize("line", ["nonsense", "5", "[]", "{}", '{"planned": [], "findings": []}'])
def test_a_file_of_something_else_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    """The series appends nothing to a file that was named by mistake."""
    file = tmp_path / "results.jsonl"
    Results(file).add(CLEAN)
    with file.open("a") as more:
        more.write(f"{line}\n")

    with pytest.raises(WrongUseError, match=r"results.jsonl, line 2 is no result"):
        Results(file)
