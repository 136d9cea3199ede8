"""Rows of `make verify`: what a figure's verdict is, and how often it is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.verify.fetching import FETCHES
from tests.verify.plugin import Noted, read
from tests.verify.rooms import ROOMS, room_of
from tests.verify.rows import HELD, MISSED, NOT_MEASURED, Row, decided, of_test, table

TEST = "tests/integration/test_limits.py::test_a"


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(0.98, HELD), (1.0, HELD), (1.02, HELD), (0.97, MISSED), (1.03, MISSED), (None, NOT_MEASURED)],
)
def test_a_figure_holds_within_its_bounds(value: float | None, verdict: str) -> None:
    """The bounds themselves hold."""
    assert Row(TEST, "share", value, least=0.98, most=1.02).verdict == verdict


def test_a_test_without_a_figure_is_a_row_that_holds_or_does_not() -> None:
    """So is one that fails for another reason than a figure."""
    share = {"name": "share", "value": 0.5, "least": 0.98, "most": 1.0}
    good = share | {"value": 0.99}

    assert [r.verdict for r in of_test(TEST, passed=True, measured=[], told="")] == [HELD]
    assert [r.verdict for r in of_test(TEST, passed=False, measured=[], told="x")] == [MISSED]
    assert [r.verdict for r in of_test(TEST, passed=False, measured=[share], told="")] == [MISSED]
    rows = of_test(TEST, passed=False, measured=[good], told="never a receipt")
    assert [(row.name, row.verdict) for row in rows] == [("share", HELD), ("", MISSED)]


def test_the_median_of_three_decides() -> None:
    """A figure that is off once is chance, one that is off twice is a fault."""

    def runs(*values: float) -> list[list[Row]]:
        return [[Row(TEST, "share", value, least=0.98)] for value in values]

    [once] = decided(runs(0.5, 0.99, 1.0))
    assert (once.value, once.verdict, once.times) == (0.99, HELD, 3)
    [twice] = decided(runs(0.5, 0.99, 0.6))
    assert (twice.value, twice.verdict) == (0.6, MISSED)


def test_a_failure_that_comes_once_of_three_is_held() -> None:
    """A run that has no row for it has not failed."""
    failed, share = [Row(TEST, value=0.0, least=1.0)], [Row(TEST, "share", 1.0)]

    def verdicts(*runs: list[Row]) -> list[str]:
        return [row.verdict for row in decided(runs) if not row.name]

    assert verdicts(failed, share, share) == [HELD]
    assert verdicts(failed, failed, share) == [MISSED]
    assert verdicts(failed) == [MISSED]


def test_a_run_that_was_ended_before_it_measured_anything_does_not_count() -> None:
    """Neither as a pass nor in the number of measurements."""
    [row] = decided([[Row(TEST, value=0.0, least=1.0)], []])

    assert (row.verdict, row.times) == (MISSED, 1)


def test_a_table_has_figure_bound_and_verdict_and_says_what_was_measured_again() -> None:
    """One line for each row."""
    lines = table(
        [
            Row(TEST, "share", 0.991, least=0.98),
            Row(TEST, "peak", 3100.0, "/s", most=3000, times=3),
            Row(TEST, told="no time was left"),
        ]
    ).splitlines()[2:]

    assert lines == [
        "| integration/test_limits.py::test_a: share | 0.991 | at least 0.98 | held |",
        "| integration/test_limits.py::test_a: peak | 3,100 /s | at most 3,000 | missed, median of 3 |",
        "| integration/test_limits.py::test_a | no time was left | as the test says | not measured |",
    ]


def test_what_a_room_measured_before_it_was_ended_is_read(tmp_path: Path) -> None:
    """Tests without a row are known as well."""
    file = tmp_path / "rows.jsonl"
    row = {"test": TEST, "name": "share", "value": 1.0}
    noted = {"rows": [row], "figures": {"pip-82/converges": "899 of 900"}}
    file.write_text(json.dumps({"tests": [TEST, "other"]}) + "\n" + json.dumps(noted) + "\n")

    expected = Noted([TEST, "other"], [Row(TEST, "share", 1.0)], noted["figures"])  # type: ignore[arg-type]
    assert read(file) == expected


def test_each_room_has_tests_and_each_file_of_a_room_exists() -> None:
    """A file that is renamed leaves no room without notice."""
    for room in ROOMS:
        assert all(Path(path).exists() for path in room.paths), room
    names = {room.name for room in ROOMS}
    assert len(names) == len(ROOMS)
    assert FETCHES.keys() <= names
    found = room_of("tests/attacks/test_borrowing.py::test_no_lookup_names_a_role[a]")
    assert found is not None
    assert found.name == "identity", "the first room that has a test"
