"""The figures of backlogs that are drained under one dispatch limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.demo import result, summary, targets
from deploy.demo.dispatch_figures import dispatch_figures
from deploy.demo.figures import evaluate
from deploy.demo.recording import DispatchRecording
from tests.demo.scenes import Rates, act, recording, samples


def drained(*brokers: Rates, missing: int = 0) -> DispatchRecording:
    """Consumers that come at the second 2, and these brokers' backlogs, gone at the second 27."""
    sent = [
        sample
        for number, rates in enumerate(brokers)
        for sample in samples(f"broker-{number}", [(0, 0.0), *rates], 30)
    ]
    return DispatchRecording(sent, (), 600, known_s=2.0, ended_s=27.0, missing=missing)


EQUAL: Rates = [(2, 200.0)]


def test_equal_shares_are_a_third_each() -> None:
    """The sum is the limit, and no second has more."""
    figures = dispatch_figures(drained(EQUAL, EQUAL, EQUAL))
    assert list(figures.shares.values()) == pytest.approx([1, 1, 1])
    assert (figures.error, figures.jain, figures.highest) == pytest.approx((0, 1, 0), abs=1e-6)
    assert all(check.met for check in targets.dispatch_checks(figures))


def test_the_highest_second_may_be_the_first() -> None:
    """A bucket that is full when the consumer comes counts, though not in the shares."""
    figures = dispatch_figures(drained([(2, 2_000.0), (3, 200.0)], EQUAL, EQUAL))
    assert figures.highest > 1
    assert list(figures.shares.values()) == pytest.approx([1, 1, 1])
    missed = [check.what for check in targets.dispatch_checks(figures) if not check.met]
    assert missed == ["dispatch: highest second"]


@pytest.mark.parametrize(
    ("brokers", "missing", "missed"),
    [
        ([[(2, 300.0)], [(2, 150.0)], [(2, 150.0)]], 0, ["dispatch: furthest share"]),
        ([[(2, 190.0)]] * 3, 0, ["dispatch: error of the sum", "dispatch: furthest share"]),
        ([EQUAL] * 3, 7, ["dispatch: missing messages"]),
    ],
)
def test_each_target_is_checked(brokers: list[Rates], missing: int, missed: list[str]) -> None:
    """By name."""
    figures = dispatch_figures(drained(*brokers, missing=missing))
    assert [c.what for c in targets.dispatch_checks(figures) if not c.met] == missed


def test_the_scene_stands_in_table_summary_and_targets() -> None:
    """A run without it has none of that."""
    acts = recording({"a": [(0, 3_000.0)]}, [act(0, 20, {"a": 5_000})])
    without = evaluate(acts)
    figures = evaluate(replace(acts, dispatch=drained(EQUAL, EQUAL, EQUAL)))
    assert "dispatch of backlogs at 600/s" in list(
        result.table("x", figures, targets.GATE).columns[0].cells
    )
    assert (
        result.table("x", without, targets.GATE).row_count
        == result.table("x", figures, targets.GATE).row_count - 1
    )
    told = summary.summary(figures)["dispatch"]
    assert (told["limit"], told["missing"]) == (600, 0)
    assert told["shares"] == {f"broker-{number}": 1.0 for number in range(3)}
    assert (
        len(targets.checks(figures, targets.GATE)) == len(targets.checks(without, targets.GATE)) + 4
    )
