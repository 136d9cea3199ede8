"""A dispatch rate is written as Pulsar reads it, and read as an operator may have written it."""

from __future__ import annotations

import json

import pytest

from coordinator.native.engine.dispatch_rate import (
    NO_RATE,
    TopicDispatchRate,
    body_of,
    lower_of,
    rate_in,
)

BODY = {
    "dispatchThrottlingRateInMsg": 200,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}


@pytest.mark.parametrize(
    "rate", [TopicDispatchRate(200), TopicDispatchRate(None, 7), TopicDispatchRate(3, 2**40)]
)
def test_a_rate_is_read_as_it_was_written(rate: TopicDispatchRate) -> None:
    """In either unit, or both."""
    assert rate_in(body_of(rate)) == rate


def test_the_form_is_pulsars() -> None:
    """No rate at all is no body."""
    assert json.loads(body_of(TopicDispatchRate(200))) == BODY
    assert body_of(NO_RATE) == ""
    assert rate_in("") == NO_RATE


def test_nothing_is_written_that_pulsar_takes_for_no_limit() -> None:
    """0 would be none, and more than an int holds an error."""
    assert rate_in(body_of(TopicDispatchRate(0, 0))) == TopicDispatchRate(1, 1)
    assert rate_in(body_of(TopicDispatchRate(2**40, None))) == TopicDispatchRate(2**31 - 1)


def test_a_rate_of_a_longer_period_is_told_by_the_second() -> None:
    """One that is relative to what is published is no bound."""
    assert rate_in(json.dumps(BODY | {"ratePeriodInSecond": 10})) == TopicDispatchRate(20)
    assert rate_in(json.dumps(BODY | {"relativeToPublishRate": True})) == NO_RATE


@pytest.mark.parametrize("body", ["[]", "{}", "nonsense", '{"dispatchThrottlingRateInMsg": "x"}'])
def test_what_is_no_rate_is_refused(body: str) -> None:
    """It is not taken for no limit."""
    with pytest.raises(ValueError, match=r"."):
        rate_in(body)


def test_of_two_rates_the_lower_one_counts_in_each_unit() -> None:
    """No rate lowers nothing."""
    assert lower_of(TopicDispatchRate(5, 100), TopicDispatchRate(9, 10)) == TopicDispatchRate(5, 10)
    assert lower_of(TopicDispatchRate(5), TopicDispatchRate(None, 7)) == TopicDispatchRate(5, 7)
    assert lower_of(NO_RATE, NO_RATE) == NO_RATE
