"""The file of an advice changes no group, and leaves out what cannot be tried, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import manifest
from spark_jobs.proposal import as_yaml

SETTINGS = {"law": "max-min", "overshoot_policy": "balanced", "weights": "topics"}


def row(group: str, **others: Any) -> dict[str, Any]:
    """An advice as the job gives it."""
    return {
        "resource_group": group, "dimension": "publishRateInMsgs", "limit": 900, "step": 1_500,
        "settings": SETTINGS, **others,
    }  # fmt: skip


def declared(tmp_path: Path, *rows: dict[str, Any]) -> tuple[dict[str, manifest.Declared], str]:
    """The file as `groups apply` reads it, and its text."""
    path = tmp_path / "groups.yaml"
    path.write_text(as_yaml(rows, 0.001))
    return manifest.read(path), path.read_text()


def test_every_dimension_of_a_group_is_tried_by_one_that_observes_it(tmp_path: Path) -> None:
    """A step at a time, with the settings of the group."""
    found, text = declared(
        tmp_path, row("orders"), row("orders", dimension="publishRateInBytes", step=7_000)
    )

    assert list(found) == ["orders-advised"]
    assert found["orders-advised"].fields == manifest.DEFAULTS | {
        "publishRateInMsgs": 1_500, "publishRateInBytes": 7_000, "weights": "topics",
        "enforcement": "observe", "observes": "orders",
    }  # fmt: skip
    assert "0.100% of the recorded time" in text


def test_demand_that_is_not_known_is_left_out_with_the_next_step(tmp_path: Path) -> None:
    """Nothing can be observed above a limit that holds back."""
    found, text = declared(tmp_path, row("orders", limit=None), row("other", limit=None, step=None))

    assert found == {}
    assert (
        "# left out: orders publishRateInMsgs: demand is not known; raise its own limit to" in text
    )
    assert "raise its own limit\n" in text


def test_a_trial_of_an_earlier_time_gets_no_trial_of_its_own(tmp_path: Path) -> None:
    """Unless the group that it looks like was not recorded: then it is a group like others."""
    assert list(declared(tmp_path, row("a"), row("a-advised"))[0]) == ["a-advised"]
    assert list(declared(tmp_path, row("a-advised"))[0]) == ["a-advised-advised"]


@pytest.mark.parametrize("name", ["x" * 250, "a/b", "a\nb: 1", "", ".."])
def test_a_name_that_no_group_can_have_is_left_out(name: str, tmp_path: Path) -> None:
    """It came from a file; the rest of the advice stays, and the comment is one line."""
    found, text = declared(tmp_path, row(name), row("orders"))

    assert list(found) == ["orders-advised"]
    assert all(line.startswith("#") for line in text.partition("groups:")[0].splitlines())
