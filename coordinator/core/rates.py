"""Rates as numbers of JSON and as words.

A limit may have a fraction, in steps of a thousandth: 0.5/s is one message every two seconds. Finer ones
are refused, as a number of JSON would not hold every one of them exactly.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

from coordinator.core.model import Rate

_STEPS = 1_000
"""Steps between two whole rates."""


def rate_of(number: object) -> Rate | None:
    """Return the rate of a number of JSON; None if it has more than three decimals or is no number."""
    if type(number) is int:
        return number
    if type(number) is not float or not isfinite(number):
        return None
    rate = Fraction(str(number))  # as it is written: 0.1 is a tenth
    if (rate * _STEPS).denominator != 1:
        return None
    return int(rate) if rate.denominator == 1 else rate


def number_of(rate: Rate) -> int | float:
    """Return a rate as a number of JSON, to a thousandth."""
    return rate if isinstance(rate, int) else round(float(rate), 3)


def in_digits(rate: float | Fraction) -> str:
    """Return a rate for people: 3,000 or 0.5 or 0.667."""
    if isinstance(rate, int):
        return f"{rate:,}"
    return f"{float(rate):,.3f}".rstrip("0").rstrip(".")
