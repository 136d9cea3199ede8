"""Rates are read from numbers to a thousandth, and written back as they were."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.rates import in_digits, number_of, rate_of

thousandths = st.integers(0, 2**31 * 1_000 - 1)


@given(thousandths)
def test_a_rate_in_thousandths_reads_back_as_it_was_written(of: int) -> None:
    """Up to the largest rate of messages."""
    rate = Fraction(of, 1_000)
    assert rate_of(number_of(rate)) == rate


@pytest.mark.parametrize(
    ("number", "rate"), [(3, 3), (3.0, 3), (0.5, Fraction(1, 2)), (0.1, Fraction(1, 10)), (-1, -1)]
)
def test_a_number_is_read_as_it_is_written(number: float, rate: int | Fraction) -> None:
    """A tenth is a tenth, though no binary number is."""
    assert rate_of(number) == rate


@pytest.mark.parametrize(
    "number",
    [0.0005, 1.00001, 1e-300, float("nan"), float("inf"), -float("inf"), True, None, "0.5", [0.5]],
)
def test_other_numbers_and_values_are_no_rates(number: object) -> None:
    """More than three decimals would be lost on the way."""
    assert rate_of(number) is None


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0, "0"),
        (3_000, "3,000"),
        (0.5, "0.5"),
        (Fraction(2, 3), "0.667"),
        (Fraction(2001, 2), "1,000.5"),
        (Fraction(20, 1), "20"),
    ],
)
def test_people_read_rates_in_digits(rate: int | Fraction, text: str) -> None:
    """With as many decimals as there are, three at the most."""
    assert in_digits(rate) == text
