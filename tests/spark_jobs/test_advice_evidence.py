"""Brokers that want more than their share of a limit would feel it."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from spark_jobs.advice_evidence import feeling

GROUP = {"resource_group": "g", "monitoring_class": "Publish", "dimension": "publishRateInMsgs"}


def felt(
    rows: list[tuple[int, str, float, int]], weights: str = "equal"
) -> dict[str, tuple[int, float]]:
    """Return the seconds and what is lacking, by broker, at a limit of 100."""
    found = feeling(
        pd.DataFrame(
            [
                {"second": second, "broker": broker, "most": most, "topics": topics, **GROUP}
                for second, broker, most, topics in rows
            ]
        ).assign(limit=100, weights=weights)
    )
    return {row["broker"]: (row["seconds"], row["lacking"]) for row in found.to_dict("records")}


def test_the_only_broker_feels_what_is_above_the_limit() -> None:
    """In every second of its own."""
    assert felt([(1, "a", 130.0, 1), (2, "a", 101.0, 1)]) == {"a": (2, 31.0)}


def test_a_broker_that_wants_little_feels_nothing() -> None:
    """Its share is what it wants; the other lacks the rest."""
    assert felt([(1, "a", 20.0, 1), (1, "b", 90.0, 1)]) == {"b": (1, 10.0)}


def test_what_is_wanted_without_bound_is_counted_in_seconds_only() -> None:
    """The other broker has its part before it."""
    assert felt([(1, "a", math.inf, 1), (1, "b", 60.0, 1)]) == {"a": (1, 0.0), "b": (1, 10.0)}


@pytest.mark.parametrize(("weights", "lacking"), [("equal", 30.0), ("topics", 5.0)])
def test_shares_go_by_what_the_group_weighs_by(weights: str, lacking: float) -> None:
    """Three topics of four are three quarters of the limit, and the rest is the other's."""
    assert felt([(1, "a", 80.0, 3), (1, "b", 80.0, 1)], weights)["a"] == (1, lacking)
