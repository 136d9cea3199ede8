"""The buckets of a saturated run, from recordings whose rates are known."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from deploy.demo import buckets
from deploy.demo.recording import DemoRecording, Receipts, Wait
from tests.demo.scenes import Rates, act, recording

THIRD: Rates = [(0, 1_000)]
DEMANDS = {"a": 5_000, "b": 2_500, "c": 5_000}


def _run(first: Rates, seconds: float = 60) -> DemoRecording:
    acts = [act(0, seconds, DEMANDS)]
    return recording({"a": first, "b": THIRD, "c": THIRD}, acts)


def _peaks(run: DemoRecording) -> dict[int, float]:
    return {peak.length_s: peak.peak for peak in buckets.evaluate(run).peaks}


def test_a_limit_that_is_held_has_no_bucket_above_it() -> None:
    """Sixty of a second, twelve of five, six of ten, three of twenty."""
    figures = buckets.evaluate(_run(THIRD))

    assert [peak.buckets for peak in figures.peaks] == [60, 12, 6, 3]
    assert [peak.peak for peak in figures.peaks] == pytest.approx([0.0] * 4, abs=1e-9)
    assert figures.error == pytest.approx(0.0, abs=1e-9)
    assert buckets.missed(figures) == []


def test_a_second_of_too_much_is_diluted_by_the_length_of_its_bucket() -> None:
    """300 messages beyond 3,000 in one second: a tenth of its limit, a hundredth of ten seconds'."""
    peaks = _peaks(_run([(0, 1_000), (31, 1_300), (32, 1_000)]))

    assert peaks == pytest.approx({1: 0.1, 5: 0.02, 10: 0.01, 20: 0.005}, abs=1e-6)


def test_too_much_across_two_buckets_counts_in_each_as_far_as_it_belongs_there() -> None:
    """The protocol's buckets stand one after the other; a window that slides would see the whole."""
    peaks = _peaks(_run([(0, 1_000), (30.6, 1_300), (31.6, 1_000)]))

    assert peaks[1] == pytest.approx(0.06, abs=1e-6)


def test_every_missed_target_is_named_with_what_came_out() -> None:
    """The worst second misses its own target, and no longer bucket does."""
    figures = buckets.evaluate(_run([(0, 1_000), (31, 1_042), (32, 1_000)]))

    assert buckets.missed(figures) == [
        "missed: the worst bucket of 1 s +1.40%, target <= 1.0%",
    ]


def test_a_missed_second_in_which_the_machine_stood_still_is_told_apart() -> None:
    """A broker that waits for a processor counts afterwards what its gate let pass in time."""
    run = replace(_run([(0, 1_000), (31, 1_300), (32, 1_000)]), waits=[Wait(30.6, 30.9)])
    found = buckets.missed(buckets.evaluate(run))

    assert [line for line in found if "0.30 s" in line and line.startswith("buckets of 1 s")]


def test_a_run_that_lets_too_little_pass_misses_the_error_of_the_sum() -> None:
    """A limiter that stops everything has no bucket above the limit, either."""
    figures = buckets.evaluate(_run([(0, 900)]))

    assert buckets.missed(figures) == ["missed: error of the sum -3.33%, target <= 1%"]


def test_latency_regret_is_what_a_central_bucket_would_have_spared_the_same_clients() -> None:
    """6,000 messages under way wait 6,000 / 2,900 s for one; at 3,000/s they would wait 2 s."""
    run = _run([(0, 900)])
    waited = [Receipts(name, 45.0, 1_000, 6_000 / 2_900) for name in DEMANDS]
    filling = [Receipts("a", 2.0, 1_000, 0.1)]

    figures = buckets.evaluate(replace(run, receipts=[*filling, *waited]))

    assert figures.latency_s == pytest.approx(6_000 / 2_900)
    assert figures.regret_s == pytest.approx(6_000 / 2_900 - 2.0, abs=1e-6)
    assert buckets.summary(figures)["latency_regret_seconds"] == pytest.approx(0.06897, abs=1e-5)


def test_the_table_names_the_target_of_every_length() -> None:
    """It also says when no client told its latency."""
    console = Console(width=120, file=StringIO(), record=True)
    console.print(buckets.table("ours", buckets.evaluate(_run(THIRD))))
    shown = console.export_text()

    for text in ("1 s", "5 s", "10 s", "20 s", "<= 1.0%", "<= 0.5%", "<= 0.3%", "<= 0.2%"):
        assert text in shown
    assert "No client told how long a message waits." in shown
