"""Runs one room: `pytest -p tests.verify.plugin --room NAME --rows FILE`.

The file has lines of JSON: the tests that the room has, then the rows of each test as it ends. So what a
room measured is kept when it is ended half-way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.verify.rooms import ROOMS, room_of
from tests.verify.rows import Row, of_test

MEASURED: Final = "measured"
"""The property of a report that holds a figure; the fixture of that name notes it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that name the room and the file."""
    parser.addoption("--room", choices=[room.name for room in ROOMS], required=True)
    parser.addoption("--rows", type=Path, required=True, help="where to append what was measured")


def pytest_configure(config: pytest.Config) -> None:
    """Take notes; a worker of pytest-xdist leaves that to its controller."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Notes(config.getoption("--rows")))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of other rooms out; those with a cluster of their own come first.

    The shared one starts with the first test that needs it, so no cluster runs beside another.
    """
    name = config.getoption("--room")
    own = [item for item in items if (room := room_of(item.nodeid)) and room.name == name]
    config.hook.pytest_deselected(items=[item for item in items if item not in own])
    items[:] = sorted(own, key=lambda item: item.get_closest_marker("own_cluster") is None)


class Notes:
    """Writes down what is measured.

    Args:
        file: to append to.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._reasons: dict[str, str] = {}
        self._has_tests = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write down what there is to measure."""
        self._begin([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The same, where workers collect the tests, each all of them."""
        self._begin(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down the rows of a test that has ended."""
        if report.failed:
            self._reasons.setdefault(report.nodeid, _reason(report))
        if report.when == "teardown":
            reason = self._reasons.pop(report.nodeid, "")
            rows = of_test(
                report.nodeid, passed=not reason, measured=list(_measured(report)), told=reason
            )
            figures = {} if reason else dict(_figures(report))
            self._write({"rows": [_plain(row) for row in rows], "figures": figures})

    def _begin(self, tests: list[str]) -> None:
        if tests and not self._has_tests:
            self._has_tests = True
            self._write({"tests": tests})

    def _write(self, line: Any) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(frozen=True, slots=True)
class Noted:
    """The outcome of one run.

    Args:
        tests: that there were to run.
        rows: of those that ended.
        figures: by the row of the source documents, what a test that passed says of it.
    """

    tests: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)


def read(file: Path) -> Noted:
    """Return what a room has written down."""
    noted = Noted()
    for text in file.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        noted.tests.extend(line.get("tests", ()))
        noted.rows.extend(Row(**row) for row in line.get("rows", ()))
        noted.figures.update(line.get("figures", {}))
    return noted


def _plain(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Row.__slots__}


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(getattr(crash, "message", report.longrepr)).splitlines()
    return said[0][:200] if said else "failed"


def _measured(report: pytest.TestReport) -> Iterator[dict[str, Any]]:
    for name, value in report.user_properties:
        if name == MEASURED:
            assert isinstance(value, dict)
            yield value


def _figures(report: pytest.TestReport) -> Iterator[tuple[str, str]]:
    """Yield what the fixture `figure` noted; a row may have several texts."""
    texts: dict[str, list[str]] = {}
    for name, value in report.user_properties:
        if name != MEASURED:
            texts.setdefault(name, []).append(str(value))
    for name, each in texts.items():
        yield name, "; ".join(dict.fromkeys(each))
