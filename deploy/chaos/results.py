"""The outcomes of runs: one line of JSON for each in a file that outlives them, and a table for people.

A run is known by its seed, its policy, its mishaps and its enforcement path, so that a later sitting can
leave out what was clean; the version of the code is noted beside it. The last run of its kind counts:
what had a finding and was clean later is clean.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from coordinator.config.model import GATE
from deploy.chaos.checker.history import Breach
from deploy.chaos.choices import Choice
from deploy.chaos.schedule import Planned
from deploy.local.errors import WrongUseError

Key = tuple[int, str, tuple[Planned, ...], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one run.

    Attributes:
        planned: its mishaps.
        happened: how many of them did; the others were left out when time was up.
        findings: rules that did not hold.
        failure: why the run has no verdict; None if it has one.
        looked_at: for people: how much the verdict is made from.
        seconds: that it took.
        version: of the code.
        ended_at: when it ended, in ISO 8601.
        path: where limits were enforced.
    """

    seed: int
    policy: str
    planned: tuple[Planned, ...]
    happened: int
    findings: tuple[Breach, ...]
    failure: str | None
    looked_at: str
    seconds: float
    version: str
    ended_at: str
    path: str = GATE

    @property
    def key(self) -> Key:
        """Return the identity of the run."""
        return self.seed, self.policy, self.planned, self.path

    @property
    def clean(self) -> bool:
        """Whether it has a verdict, and nothing was found."""
        return not self.findings and self.failure is None


class Results:
    """The results in one file, which need not exist yet.

    Args:
        file: one line a run, in the order in which they ended.

    Raises:
        WrongUseError: a line of it is no result.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last: dict[Key, Result] = {}
        lines = file.read_text().splitlines() if file.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                result = _read(line)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise WrongUseError(
                    f"{file}, line {number} is no result: remove it, or name another --results."
                ) from None
            self._last[result.key] = result

    def add(self, result: Result) -> None:
        """Write down what became of one more run."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        self._last[result.key] = result

    def of(self, choices: Iterable[Choice]) -> list[Result]:
        """The last result of each of these runs that was played."""
        keys = [(each.seed, each.policy, each.planned, each.path) for each in choices]
        return [self._last[key] for key in keys if key in self._last]

    def missing(self, choices: Iterable[Choice]) -> list[Choice]:
        """Those of these runs that were never clean, or not when they were last played."""
        return [choice for choice in choices if not any(r.clean for r in self.of([choice]))]


def _read(line: str) -> Result:
    entry = json.loads(line)
    planned = tuple(Planned(**each) for each in entry.pop("planned"))
    findings = tuple(Breach(**each) for each in entry.pop("findings"))
    return Result(planned=planned, findings=findings, **entry)


def table(results: Sequence[Result]) -> Table:
    """Return the results as a table for people."""
    drawn = Table(
        "seed",
        "policy",
        "enforced by",
        "mishaps",
        "outcome",
        "seconds",
        "version",
        title=summary(results),
        title_justify="left",
    )
    for result in results:
        drawn.add_row(
            str(result.seed),
            result.policy,
            result.path,
            ", ".join(planned.name for planned in result.planned),
            outcome(result),
            f"{result.seconds:.0f}",
            result.version,
        )
    return drawn


def summary(results: Sequence[Result]) -> str:
    """Say how many there are and how many are clean, in a sentence."""
    clean = [result for result in results if result.clean]
    mishaps = sum(result.happened for result in clean)
    return f"{len(clean)} of {len(results)} runs are clean, with {mishaps} mishaps"


def outcome(result: Result) -> str:
    """Return what became of a run, in a few words."""
    if result.failure is not None:
        return "failed"
    if result.findings:
        return f"FOUND {', '.join(sorted({found.rule for found in result.findings}))}"
    if result.happened < len(result.planned):
        return f"clean after {result.happened} of {len(result.planned)} mishaps"
    return "clean"
