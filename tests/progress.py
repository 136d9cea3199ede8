"""The progress of one part of the tests: `pytest -p tests.progress --outcome FILE`.

In place of dots it prints a line every fifteen seconds, with the time left, and each failure as it comes.
At the end it writes the number of tests by their outcome into the file, as JSON.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

EVERY_S: Final = 15.0
FIRST_PART: Final = 20
"""The time that is left is told from the twentieth part of the tests on."""

_OUTCOME: Final = "--outcome"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption(_OUTCOME, type=Path, help="write the number of tests by outcome, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run; a worker of pytest-xdist leaves that to its controller."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config, config.getoption(_OUTCOME)))


class Progress:
    """Counts tests as they end.

    Args:
        config: pytest's.
        outcome: the file to write; None writes none.
    """

    def __init__(self, config: pytest.Config, outcome: Path | None) -> None:
        self._config, self._outcome = config, outcome
        self._total = 0
        self._ended = Counter[str]()
        self._failed = set[str]()
        self._began_s = self._told_s = time.monotonic()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Know the number of tests, and begin to count the time."""
        self._expect(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The same, where workers collect the tests."""
        self._expect(len(ids))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Show no letter for a test that passes or fails: lines say that."""
        if report.failed:
            return ("failed" if report.when == "call" else "error", "", "")
        return ("passed", "", "") if report.when == "call" and report.passed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a test that fails, once; a test counts when it is torn down."""
        if report.failed and report.nodeid not in self._failed:
            self._failed.add(report.nodeid)
            self._say(f"FAILED {report.nodeid}")
        if report.skipped:
            self._ended["skipped"] += 1
        if report.when != "teardown":
            return
        self._ended["failed" if report.nodeid in self._failed else "passed"] += 1
        now_s = time.monotonic()
        if now_s - self._told_s >= EVERY_S:
            self._told_s = now_s
            self._say(self._progress(now_s - self._began_s))

    def pytest_sessionfinish(self) -> None:
        """Write the outcome; a test that was skipped has not passed."""
        self._ended["passed"] -= self._ended["skipped"]
        if self._outcome is not None:
            self._outcome.write_text(json.dumps(self._ended), encoding="utf-8")

    def _expect(self, total: int) -> None:
        self._total = max(self._total, total)
        self._began_s = self._told_s = time.monotonic()

    def _progress(self, took_s: float) -> str:
        ended = self._ended["passed"] + self._ended["failed"]
        told = f"{ended:,} of {self._total:,} tests"
        if ended * FIRST_PART < self._total:
            return told  # the first test waits for what all of them need
        left_s = took_s / ended * (self._total - ended)
        return f"{told}, {left_s / 60:.1f} min left in this part"

    def _say(self, line: str) -> None:
        # Pytest has standard output captured.
        self._config.get_terminal_writer().line(f"  {line}", flush=True)
