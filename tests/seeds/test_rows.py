"""Every row of the source documents is shown on a real cluster, or says why it is not."""

from __future__ import annotations

import json
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


def test_figures_are_what_the_measurement_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later one replaces a row's figure and leaves the others; a row that is missed has none."""
    kept = tmp_path / "seeds.json"
    kept.write_text('{"pip-82/proportional": "old", "pip-82/equal-residual": "stays"}')
    monkeypatch.setattr(seeds, "FIGURES", kept)
    report = tmp_path / "verify.json"
    module = "tests/integration/test_limits.py"
    limits = f"{module}::test_a_skewed_load_is_held_to_the_limit_and_shared_equally"
    tenants = (
        "tests/integration/test_tenants.py::test_a_tenant_and_all_that_is_attached_share_one_limit"
    )
    rows = [
        {"test": limits, "name": "sum", "value": 899.0, "unit": "/s", "verdict": "held"},
        {"test": limits, "name": "first second", "value": 521.0, "verdict": "held"},
        {"test": tenants, "name": "sum", "value": 599.0, "unit": "/s", "verdict": "held"},
        {"test": tenants, "name": "share", "value": 1.0, "unit": "/s", "verdict": "missed"},
    ]
    told = {"pip-82/proportional": "11, 56, 33"}
    report.write_text(json.dumps({"rooms": {"limits": rows}, "figures": told}))

    seeds.take(report)

    found = json.loads(kept.read_text())
    assert found["pip-82/proportional"] == "11, 56, 33"
    assert found["pip-82/equal-residual"] == "stays"
    assert found["pip-82/converges"] == "sum 899 /s; first second 521"
    assert "pip-82/tenant-limit" not in found, "its test is missed"

    report.write_text(json.dumps({"rooms": {}, "figures": {"pip-82/no-such-row": "1"}}))
    with pytest.raises(ValueError, match="no-such-row"):
        seeds.take(report)


def test_a_test_of_the_measurement_is_told_from_an_exact_one() -> None:
    """By the mark on the test or on its module."""
    source = (
        "pytestmark = pytest.mark.cluster\n"
        '@pytest.mark.verify\n@pytest.mark.shows("a/1")\ndef test_one(): pass\n'
        '@pytest.mark.shows("a/2")\ndef test_two(): pass\n'
    )
    found = {key: each.is_measured for key, each in seeds.evidence_in(source, "x.py")}

    assert found == {"a/1": True, "a/2": False}
