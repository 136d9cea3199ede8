"""A dispatch rate is written as Pulsar reads it, and read as an operator may have written it."""

from __future__ import annotations

import json

import pytest

from coordinator.native.engine.rate_policy import (
    DISPATCH,
    NO_RATE,
    PolicyRate,
    lower_of,
)

BODY = {
    "dispatchThrottlingRateInMsg": 200,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}


@pytest.mark.parametrize("rate", [PolicyRate(200), PolicyRate(None, 7), PolicyRate(3, 2**40)])
def test_a_rate_is_read_as_it_was_written(rate: PolicyRate) -> None:
    """In either unit, or both."""
    assert DISPATCH.rate_in(DISPATCH.body_of(rate)) == rate


def test_the_form_is_pulsars() -> None:
    """No rate at all is no body."""
    assert json.loads(DISPATCH.body_of(PolicyRate(200))) == BODY
    assert DISPATCH.body_of(NO_RATE) == ""
    assert DISPATCH.rate_in("") == NO_RATE


def test_nothing_is_written_that_pulsar_takes_for_no_limit() -> None:
    """0 would be none, and more than an int holds an error."""
    assert DISPATCH.rate_in(DISPATCH.body_of(PolicyRate(0, 0))) == PolicyRate(1, 1)
    assert DISPATCH.rate_in(DISPATCH.body_of(PolicyRate(2**40, None))) == PolicyRate(2**31 - 1)


def test_a_rate_of_a_longer_period_is_told_by_the_second() -> None:
    """One that is relative to what is published is no bound."""
    assert DISPATCH.rate_in(json.dumps(BODY | {"ratePeriodInSecond": 10})) == PolicyRate(20)
    assert DISPATCH.rate_in(json.dumps(BODY | {"relativeToPublishRate": True})) == NO_RATE


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "{}",
        "nonsense",
        '{"dispatchThrottlingRateInMsg": "x"}',
        '{"dispatchThrottlingRateInMsg": 1e999, "dispatchThrottlingRateInByte": -1}',
        json.dumps(BODY | {"more": float("nan")}),
        json.dumps(BODY | {"more": float("inf")}),
        json.dumps(BODY | {"more": "\ud800"}),
        pytest.param("[" * 100_000, id="100,000 brackets"),
    ],
)
def test_what_is_no_rate_is_refused(body: str) -> None:
    """It is not taken for no limit; a tenant's admin may have put it in the place of a kept rate.

    Given back as it is, it would be refused for ever, as no request can hold it.
    """
    with pytest.raises(ValueError, match=r"."):
        DISPATCH.rate_in(body)


def test_of_two_rates_the_lower_one_counts_in_each_unit() -> None:
    """No rate lowers nothing."""
    assert lower_of(PolicyRate(5, 100), PolicyRate(9, 10)) == PolicyRate(5, 10)
    assert lower_of(PolicyRate(5), PolicyRate(None, 7)) == PolicyRate(5, 7)
    assert lower_of(NO_RATE, NO_RATE) == NO_RATE
