"""Runs after each other: each is written down, and none spoils the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.chaos import series
from deploy.chaos.checker.history import Breach
from deploy.chaos.checker.verdict import RunVerdict
from deploy.chaos.choices import Choice
from deploy.chaos.results import Results, outcome
from deploy.chaos.schedule import Planned
from deploy.local.errors import LocalClusterError

PLANNED = (Planned("flood", "broker-1", 2.5),)
CHOICES = tuple(Choice(seed, "balanced", 10.0, 0.0, PLANNED) for seed in (1, 2, 3))
CLEAN = RunVerdict((), "all of it", (("flood", 1.0),))
FOUND = RunVerdict((Breach("lost", "one"),), "all of it", (("flood", 1.0),))


class Memory:
    """An environment that returns the given verdicts and remembers its calls."""

    def __init__(self, *ends: RunVerdict | Exception) -> None:
        self._ends = list(ends)
        self._runs = False
        self.asked: list[str] = []

    def prepare(self) -> None:
        """Start, unless it runs."""
        if not self._runs:
            self.asked.append("start")
        self._runs = True

    def play(self, choice: Choice) -> RunVerdict:
        """The next end."""
        self.asked.append(f"play {choice.seed}")
        end = self._ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def keep(self, choice: Choice) -> str:
        """Say that it is kept."""
        self.asked.append(f"keep {choice.seed}")
        return "a safe place"

    def stop(self) -> None:
        """Stop, if it runs."""
        if self._runs:
            self.asked.append("stop")
        self._runs = False


def played(environment: Memory, file: Path) -> list[str]:
    """Return the results of all runs, as a later call reads them."""
    series.play(CHOICES, environment, Results(file), "abc1234", lambda _: None)
    return [outcome(result) for result in Results(file).of(CHOICES)]


def test_clean_runs_share_one_cluster_and_leave_nothing(tmp_path: Path) -> None:
    """It is started once and stopped at the end."""
    environment = Memory(CLEAN, CLEAN, CLEAN)

    assert played(environment, tmp_path / "file") == ["clean"] * 3
    assert environment.asked == ["start", "play 1", "play 2", "play 3", "stop"]


def test_after_a_run_that_was_not_clean_the_next_one_has_a_new_cluster(tmp_path: Path) -> None:
    """Its files are kept before the servers' logs are gone."""
    environment = Memory(FOUND, LocalClusterError("a client died"), CLEAN)

    assert played(environment, tmp_path / "file") == ["FOUND lost", "failed", "clean"]
    assert environment.asked == [
        *("start", "play 1", "keep 1", "stop"),
        *("start", "play 2", "keep 2", "stop"),
        *("start", "play 3", "stop"),
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LocalClusterError("no port is free")])
def test_what_ends_the_series_leaves_the_results_so_far_and_no_cluster(
    error: BaseException, tmp_path: Path
) -> None:
    """A cluster that does not start ends it, and so does the operator."""

    class Ending(Memory):
        def prepare(self) -> None:
            if len(self.asked) == 2:
                raise error
            super().prepare()

    environment = Ending(CLEAN)
    with pytest.raises(type(error)):
        played(environment, tmp_path / "file")

    assert environment.asked == ["start", "play 1", "stop"]
    assert len(Results(tmp_path / "file").of(CHOICES)) == 1
