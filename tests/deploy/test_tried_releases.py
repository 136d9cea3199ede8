"""The page of clients says what is tried on which release of the brokers, and means files that exist."""

from __future__ import annotations

import re
from pathlib import Path

from deploy.local.jars import TRIED_PULSARS

ROOT = Path(__file__).parents[2]
CELLS = {"make test", "by hand", "by hand, in part", "not tried", "-"}


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
        assert set(row[1:]) <= CELLS, row


def test_every_test_of_the_table_exists() -> None:
    """A file that moved must move here, too."""
    for row in rows()[2:]:
        for path in re.findall(r"`(tests/[^`]+)`", row[0]):
            assert (ROOT / path).exists(), path
