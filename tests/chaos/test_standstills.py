"""A machine stood still only if no thread that should ask got a turn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from deploy.chaos.checker import bounds
from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.standstills import Standstills
from deploy.demo.recording import Miss, Sample
from tests.chaos.scenes import BROKERS, SHARE, UNTIL_S, history
from tests.demo.scenes import Rates, count, samples

STOOD_S = (29.93, 30.29)
"""Questions of 30.0 and 30.2 s are asked when it is over."""


def asked(late: Collection[str], rates: Rates = ((0.0, SHARE),)) -> list[Sample]:
    """Ask about a topic of each broker; about some only after the standstill."""
    return [sample for broker in BROKERS for sample in _of(broker, rates, late=broker in late)]


def _of(broker: str, rates: Rates, *, late: bool) -> list[Sample]:
    in_time = samples(broker, rates, UNTIL_S + 1)
    if not late:
        return in_time
    due_s, over_s = STOOD_S
    first = replace(
        in_time[0],
        sent_s=over_s,
        answered_s=over_s + 0.004,
        messages=round(count(rates, over_s)),
    )
    before = [sample for sample in in_time if sample.sent_s < due_s]
    return [*before, first, *(sample for sample in in_time if sample.sent_s > first.answered_s)]


def test_a_machine_on_which_no_process_runs_stands_still() -> None:
    """From when the first question was due, until it was asked."""
    found = Standstills(asked(BROKERS), ())
    assert found.seconds(0.0, 60.0) == pytest.approx(0.29, abs=0.01)
    assert found.seconds(30.1, 30.2) == pytest.approx(0.1)
    assert found.seconds(30.4, 60.0) + found.seconds(0.0, 29.9) == pytest.approx(0, abs=1e-9)


def test_who_is_asked_in_time_shows_that_it_did_not() -> None:
    """Then it was the broker, or who asks for its topic."""
    assert Standstills(asked(("broker-1", "broker-2")), ()).seconds(0.0, 60.0) < 0.01


def test_a_question_that_waits_for_an_answer_is_not_late() -> None:
    """All brokers may be slow at once, by whatever has been done to them."""
    slow = [
        replace(sample, answered_s=STOOD_S[1])
        if 29.75 < sample.sent_s < 29.85
        else replace(sample, sent_s=STOOD_S[1], answered_s=STOOD_S[1] + 0.004)
        if STOOD_S[0] < sample.sent_s < STOOD_S[1]
        else sample
        for sample in asked(())
    ]
    assert Standstills(slow, ()).seconds(0.0, 60.0) < 0.01


def test_a_time_without_answers_is_no_standstill() -> None:
    """A topic that is moved to another broker is asked for in vain meanwhile."""
    misses = [Miss(f"persistent://t/n/{broker}", broker, 30.1) for broker in BROKERS]
    assert Standstills(asked(BROKERS), misses).seconds(0.0, 60.0) < 0.01


def test_what_a_standstill_delayed_may_be_counted_after_it() -> None:
    """Brokers that count so when the machine did not stand still have let too much through."""
    caught_up_s = STOOD_S[1] + 0.05
    delayed = SHARE * (STOOD_S[1] - STOOD_S[0])
    burst = (STOOD_S[1], SHARE + delayed / 0.05)
    rates = [(0.0, SHARE), (STOOD_S[0], 0), burst, (caught_up_s, SHARE)]
    for late, found in ((BROKERS, set()), ((), {"exceeded"})):
        seen = replace(history(), samples=asked(late, rates))
        assert {each.rule for each in bounds.check(seen, Counted(seen), ())} == found
