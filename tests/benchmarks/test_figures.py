"""A figure names its target, and the reference for exactness finds a law that is not exact."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest

from benchmarks.figures import Figure, median_seconds
from benchmarks.law import Instances, deviation
from coordinator.core.allocation.laws import COMPARISON_LAWS, LAWS, Allocation, Claim, max_min


@pytest.mark.parametrize(
    ("value", "better", "target", "met"),
    [
        (300, "lower", 300, True),
        (301, "lower", 300, False),
        (0.99, "higher", 0.99, True),
        (0.98, "higher", 0.99, False),
        (None, "lower", 2, False),
        (1, "lower", None, None),
    ],
)
def test_a_figure_is_met_at_its_target(
    value: float | None, better: str, target: float | None, met: bool | None
) -> None:
    """The better side is met, too; a missing value meets nothing, and without a target it is neither."""
    figure = Figure("area/figure", value, "unit", better, target=target)  # type: ignore[arg-type]

    assert figure.met is met


def test_a_figure_is_a_line_of_json() -> None:
    """Short numbers, our value and the peers' side by side."""
    figure = Figure("area/figure", 123456.789, "ns", "lower", {"peer": 0.123456, "other": None}, 5)

    assert json.loads(figure.line()) == {
        "figure": "area/figure",
        "value": 123457,
        "unit": "ns",
        "better": "lower",
        "peers": {"peer": 0.1235, "other": None},
        "target": 5,
        "met": False,
    }
    assert "\n" not in figure.line()


def test_a_figure_says_what_it_is_about() -> None:
    """Where its name does not: two contenders are compared in nothing else."""
    figure = Figure("area/figure", 1, "ns", "lower", about="one part of it")

    assert json.loads(figure.line())["about"] == "one part of it"


def test_contenders_run_by_turns() -> None:
    """A disturbance hits all of them."""
    order: list[str] = []
    contenders = {name: lambda name=name: order.append(name) for name in ("a", "b")}

    assert median_seconds(contenders, repetitions=3).keys() == {"a", "b"}
    assert order == ["a", "b"] * 3


INSTANCES = Instances(
    limits=np.array([1000, 100]),
    wants=np.array([[50, 150, 400, 900, 2000], [10, 10, 10, 10, 10]]),
    weights=np.array([[1, 1, 1, 1, 1], [1, 2, 3, 4, 5]]),
)


def test_max_min_deviates_by_nothing() -> None:
    """With headroom and without."""
    assert deviation(max_min, INSTANCES, headroom=True) == 0
    assert deviation(max_min, INSTANCES, headroom=False) == 0


def test_what_is_not_max_min_is_found_to_deviate() -> None:
    """A law that is not exact, and one that is off by a single unit."""

    def off_by_one(limit: int, claims: Mapping[str, Claim]) -> Allocation:
        targets = dict(max_min(limit, claims).targets)
        first, second, *_ = sorted(targets)
        targets[first] -= 1
        targets[second] += 1
        return Allocation(targets, water_level=None)

    assert deviation(off_by_one, INSTANCES, headroom=True) > 0
    assert deviation(LAWS["static"], INSTANCES, headroom=True) > 0.1
    assert deviation(COMPARISON_LAWS["grd"], INSTANCES, headroom=False) > 0.1
