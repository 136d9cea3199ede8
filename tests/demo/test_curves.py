"""From counters to curves: restarts, moves, gaps and late answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.demo.curves import curves, total
from deploy.demo.recording import Miss, Sample
from tests.demo.scenes import samples

TOPIC = "persistent://t/n/x"


def test_a_steady_counter_is_a_steady_rate_in_every_window() -> None:
    """This holds for windows that begin and end between samples."""
    curve = curves(samples("b", [(0, 1_000)], 10))["b"]
    for start_s in (0.0, 0.1, 3.33, 8.95):
        assert curve.rate(start_s) == pytest.approx(1_000, abs=1)


def test_what_a_topic_counted_before_the_recording_is_not_traffic() -> None:
    """The first sample is where counting begins."""
    old = [replace(s, messages=s.messages + 70_000) for s in samples("b", [(0, 100)], 2)]
    assert curves(old)["b"].rate(0, 2) == pytest.approx(100)
    assert curves(old)["b"].rate(-5, 5) == 0


def test_a_counter_that_starts_again_goes_on_from_where_it_was() -> None:
    """A reload at 5 s by the same broker loses nothing but the time until its first sample."""
    before = samples("b", [(0, 1_000)], 5, topic=TOPIC)
    after = samples("b", [(0, 1_000)], 10, from_s=5.2, topic=TOPIC)
    curve = curves(before + after)["b"]
    assert curve.rate(0, 5) == pytest.approx(1_000)
    assert curve.rate(5.2, 4.8) == pytest.approx(1_000)
    assert curve.rate(5, 0.2) == 0


def test_a_topic_that_moves_counts_for_each_broker_what_it_did_there() -> None:
    """The old broker's curve stands still, the new one's begins."""
    before = samples("a", [(0, 1_000)], 5, topic=TOPIC)
    after = samples("b", [(0, 500)], 10, from_s=6, topic=TOPIC)
    by_broker = curves(before + after)
    assert by_broker["a"].rate(4, 1) == pytest.approx(1_000)
    assert by_broker["a"].rate(6, 3) == 0
    assert by_broker["b"].rate(6, 4) == pytest.approx(500)
    assert total(by_broker, 5, 1) == 0


def test_messages_of_before_the_first_sample_are_spread_since_the_broker_did_not_serve_it() -> None:
    """They are not spread over the whole time since another broker served it."""
    first = Sample(TOPIC, "b", 7.0, 7.0, 300, 1)
    before = samples("a", [(0, 0)], 5, topic=TOPIC)
    curve = curves([*before, first], [Miss(TOPIC, "b", 6.7)])["b"]
    assert curve.rate(6.7, 0.3) == pytest.approx(1_000)
    assert curve.rate(5, 1.7) == 0


def test_a_late_sample_is_left_out_when_others_are_near() -> None:
    """It was counted at some time in 300 ms, which would be a third of a window."""
    on_time = samples("b", [(0, 1_000)], 10)
    late = [
        replace(s, answered_s=s.answered_s + 0.3, messages=s.messages + 300) if n == 25 else s
        for n, s in enumerate(on_time)
    ]
    curve = curves(late)["b"]
    rates = [curve.rate(start / 10) for start in range(90)]
    assert max(rates) == pytest.approx(1_000, abs=2)
    assert min(rates) == pytest.approx(1_000, abs=2)


def test_a_late_sample_is_better_than_none() -> None:
    """A broker that is slow all the time is still measured."""
    curve = curves(samples("b", [(0, 1_000)], 10, took_s=0.1))["b"]
    assert curve.rate(2, 6) == pytest.approx(1_000)
    assert max(b - a for a, b in zip(curve.times, curve.times[1:], strict=False)) <= 0.7


def test_a_broker_without_samples_has_no_curve() -> None:
    """Without any broker there is no traffic."""
    assert curves([]) == {}
    assert total({}, 0) == 0
