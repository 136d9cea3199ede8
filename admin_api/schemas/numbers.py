"""The numbers in bodies of requests: which are read, and as what.

Tools may write 12 as 12.0 or "12", and 0.5 as "0.5". Each form says in its refusal what it takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from coordinator.core.answer import UNLIMITED, Number
from coordinator.core.rates import number_of, rate_of

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

_WHOLE_NUMBER = re.compile(r"\s*-?[0-9]{1,19}\s*", re.ASCII)
_DECIMAL_NUMBER = re.compile(r"\s*[0-9]{1,10}\.[0-9]{1,3}\s*", re.ASCII)


def whole_number(value: object) -> int | None:
    """Return a number that tools may write as 12, 12.0 or "12"; None for any other value."""
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if _WHOLE_NUMBER.fullmatch(value):
            return int(value)
        case _:
            return None


def _decimal_number(value: object) -> Number | None:
    """Return a number that tools may also write as 0.5 or "0.5"; None for any other value."""
    if (whole := whole_number(value)) is not None:
        return whole
    if isinstance(value, str) and _DECIMAL_NUMBER.fullmatch(value):
        value = float(value)
    exact = rate_of(value) if isinstance(value, float) else None
    return None if exact is None else number_of(exact)


def _number(
    read: Callable[[object], Number | None],
    least: int,
    maximum: int,
    wanted: str,
    *,
    or_unlimited: bool,
) -> BeforeValidator:
    """Return a validator of numbers in a range, or -1 for not limited; null stays null.

    Args:
        read: returns a value's number; None if it is none.
        least: of the numbers.
        maximum: of the numbers.
        wanted: what to write, in words, with the bounds in braces.
        or_unlimited: whether -1 is one, too.
    """

    def parse(value: object) -> Number | None:
        if value is None:
            return None
        number = read(value)
        if number is None or not (
            least <= number <= maximum or (or_unlimited and number == UNLIMITED)
        ):
            shown = {"least": least, "maximum": maximum, "shown": json.dumps(value)[:40]}
            raise PydanticCustomError("number", f"must be {wanted}, but is {{shown}}", shown)
        return number

    return BeforeValidator(parse)


def _rate_up_to(maximum: int) -> BeforeValidator:
    wanted = "a whole number from 0 to {maximum}, or -1 for not limited"
    return _number(whole_number, 0, maximum, wanted, or_unlimited=True)


def _limit_up_to(maximum: int) -> BeforeValidator:
    wanted = "a number from 0 to {maximum} with at most three decimals, or -1 for not limited"
    return _number(_decimal_number, 0, maximum, wanted, or_unlimited=True)


def whole_up_to(least: int, maximum: int) -> BeforeValidator:
    """Return a validator of whole numbers in a range; null stays null."""
    wanted = "a whole number from {least} to {maximum}"
    return _number(whole_number, least, maximum, wanted, or_unlimited=False)


MessageLimit = Annotated[Number | None, _limit_up_to(MAX_INT32)]
MessageRate = Annotated[int | None, _rate_up_to(MAX_INT32)]
ByteRate = Annotated[int | None, _rate_up_to(MAX_INT64)]
MessageGuarantee = Annotated[int | None, whole_up_to(0, MAX_INT32)]
ByteGuarantee = Annotated[int | None, whole_up_to(0, MAX_INT64)]
