"""Runs after each other, each on its own: what one of them leaves broken must not spoil the next.

A run has sidecars, links, a namespace, a group and load of its own; the servers are what runs have in
common. They are started anew when the run before was not clean, and whenever the environment asks for it.
A run that fails is a result like any other, and the next one is played.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from deploy.chaos.checker.verdict import RunVerdict
from deploy.chaos.choices import Choice
from deploy.chaos.results import Result, Results, outcome
from deploy.local.errors import LocalClusterError


class Environment(Protocol):
    """Where runs are played: the servers, and a directory."""

    def prepare(self) -> None:
        """Have all servers ready; raises LocalClusterError if they cannot be started."""

    def play(self, choice: Choice) -> RunVerdict:
        """Play a run; raises LocalClusterError if it comes to no verdict."""

    def keep(self, choice: Choice) -> str:
        """Keep what the last run has left behind, and say where."""

    def stop(self) -> None:
        """Stop the servers, if they run."""


def play(
    choices: Sequence[Choice],
    environment: Environment,
    results: Results,
    version: str,
    tell: Callable[[str], None],
) -> None:
    """Play these runs and write down what became of each.

    Raises:
        LocalClusterError: the servers could not be started.
    """
    try:
        for number, choice in enumerate(choices, start=1):
            tell(f"run {number} of {len(choices)}: {choice}, {len(choice.planned)} mishaps")
            environment.prepare()
            result = _played(choice, environment, version)
            results.add(result)
            _tell(result, tell)
            if not result.clean:
                tell(f"kept in {environment.keep(choice)}")
                environment.stop()
    finally:
        environment.stop()


def _played(choice: Choice, environment: Environment, version: str) -> Result:
    began_s = time.monotonic()
    verdict, failure = RunVerdict((), "", ()), None
    try:
        verdict = environment.play(choice)
    except LocalClusterError as error:
        failure = str(error)
    return Result(
        seed=choice.seed,
        policy=choice.policy,
        planned=choice.planned,
        path=choice.path,
        happened=len(verdict.recovered),
        findings=verdict.findings,
        failure=failure,
        looked_at=verdict.looked_at,
        seconds=round(time.monotonic() - began_s, 1),
        version=version,
        ended_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _tell(result: Result, tell: Callable[[str], None]) -> None:
    if result.looked_at:
        tell(f"looked at: {result.looked_at}")
    for finding in result.findings:
        tell(f"FOUND {finding.rule}: {finding.text}")
    if result.failure is not None:
        tell(f"FAILED: {result.failure}")
    tell(f"{outcome(result)}, {result.seconds:.0f} s")
