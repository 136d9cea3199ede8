"""Every row of the source documents is shown on a real cluster, or says why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pages import seeds


@pytest.mark.parametrize("row", seeds.rows(), ids=lambda row: row.key)
def test_a_row_has_a_test_on_a_real_cluster_or_a_reason(row: seeds.Row) -> None:
    """Never both: a reason that no longer holds is taken out."""
    real = [each for each in seeds.evidence().get(row.key, ()) if each.is_real]

    assert bool(real) != bool(row.reason), "mark a test on a real cluster, or write a reason"


def test_marks_name_rows() -> None:
    """A row that is renamed loses no test unnoticed."""
    assert seeds.evidence().keys() <= {row.key for row in seeds.rows()}


def test_marks_are_read_from_decorators_and_from_modules() -> None:
    """A test is real if it, or its module, or the mark itself says so."""
    source = (
        "pytestmark = pytest.mark.slow\n"
        '@pytest.mark.shows("a/1", "a/2")\ndef test_one(): pass\n'
        '@pytest.mark.cluster\n@pytest.mark.shows("a/3")\nasync def test_two(): pass\n'
        '@pytest.mark.shows("a/4", real=True)\ndef test_three(): pass\n'
    )
    found = [(key, each.test, each.is_real) for key, each in seeds.evidence_in(source, "x.py")]

    assert found == [
        ("a/1", "test_one", False),
        ("a/2", "test_one", False),
        ("a/3", "test_two", True),
        ("a/4", "test_three", True),
    ]
    everywhere = source.replace("pytest.mark.slow", "[pytest.mark.cluster, pytest.mark.slow]")
    assert all(each.is_real for _, each in seeds.evidence_in(everywhere, "x.py"))


def test_figures_are_those_of_tests_that_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later report replaces a row's figure and leaves the others."""
    kept = tmp_path / "seeds.json"
    kept.write_text('{"pip-82/proportional": "old", "pip-82/equal-residual": "stays"}')
    monkeypatch.setattr(seeds, "FIGURES", kept)
    report = tmp_path / "report.xml"
    case = '<testcase>{}<properties><property name="{}" value="{}"/></properties></testcase>'
    good = case.format("", "pip-82/proportional", "11, 56, 33")
    failed = case.format("<failure/>", "pip-82/equal-residual", "wrong")
    report.write_text(f"<testsuite>{good}{failed}</testsuite>")

    assert seeds.take(report) == 1
    assert "11, 56, 33" in kept.read_text()
    assert "stays" in kept.read_text()

    report.write_text(f"<testsuite>{case.format('', 'pip-82/no-such-row', '1')}</testsuite>")
    with pytest.raises(ValueError, match="no-such-row"):
        seeds.take(report)
