"""The page of clients says what is tried on which release of the brokers, and means files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.local.jars import DEFAULT_PULSAR, TRIED_PULSARS
from tests.pulsar_version import PULSAR, pulsar_version

ROOT = Path(__file__).parents[2]
CELL = re.compile(
    r"make test|make verify|make test, make verify|not tried|-"
    r"|by hand(?:, in part|: ([0-9]+) of ([0-9]+))?"
)


def rows() -> list[list[str]]:
    """The table, its head first."""
    page = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
    section = page.partition("## Releases of the brokers")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_a_column_for_each_release_that_the_launcher_is_tried_with() -> None:
    """The oldest first."""
    assert rows()[0][1:] == sorted(TRIED_PULSARS)


def test_every_cell_says_how_it_was_tried() -> None:
    """In the words that stand below the table."""
    for row in rows()[2:]:
        assert len(row) == 1 + len(TRIED_PULSARS)
        for cell in row[1:]:
            said = CELL.fullmatch(cell)
            assert said is not None, row
            assert said[1] is None or 0 < int(said[1]) <= int(said[2]), row


def test_every_test_of_the_table_exists() -> None:
    """A file that moved must move here, too."""
    for row in rows()[2:]:
        for path in re.findall(r"`(tests/[^`]+)`", row[0]):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("asked", TRIED_PULSARS)
def test_the_clusters_of_the_tests_run_the_release_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """An empty one, which a Makefile may pass, is the launcher's."""
    monkeypatch.setenv(PULSAR, asked)
    assert pulsar_version() == asked
    monkeypatch.setenv(PULSAR, "")
    assert pulsar_version() == DEFAULT_PULSAR


@pytest.mark.parametrize("asked", ["4.1.0", "5", "newest", "5.0.0-M1 ", "../4.2.4"])
def test_tests_on_a_release_that_is_not_tried_are_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """The error names the variable, and what it can be."""
    monkeypatch.setenv(PULSAR, asked)
    with pytest.raises(pytest.UsageError, match=f"{PULSAR} is .*: use one of 4.2.4, 4.0.7, 5.0.0"):
        pulsar_version()
