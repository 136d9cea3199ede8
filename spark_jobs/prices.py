"""The price table of showback: a TOML file, checked as a whole before anything is computed.

::

    currency = "EUR"
    decimals = 2                    # of each line of the bill

    [publish]
    per_gb = 0.05                   # 1 GB is 1,000,000,000 bytes
    per_million_messages = 0.40

    [dispatch]
    per_gb = 0.02
    per_million_messages = 0.10

    [owners]                        # a namespace's own label goes before its tenant's
    shop = "team-commerce"
    "shop/orders" = "team-orders"

Prices are decimal numbers and stay so: nothing of a bill is ever a binary fraction.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from spark_jobs.refusals import RefusedInput

PLACES: Final = 6
"""Digits of a price behind the point."""
PRICE_MAX: Final = 10**6
OWNERS_MAX: Final = 100_000
LABEL_MAX: Final = 200

_CLASSES: Final = ("publish", "dispatch")
_UNITS: Final = ("per_gb", "per_million_messages")
_KEYS: Final = ("currency", "decimals", *_CLASSES, "owners")
_CURRENCY: Final = re.compile(r"[A-Za-z]{1,12}")
_DECIMALS_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class ClassPrices:
    """The prices of one monitoring class."""

    per_gb: Decimal
    per_million_messages: Decimal


@dataclass(frozen=True, slots=True)
class PriceTable:
    """A checked table; `owners` are labels by tenant or tenant/namespace."""

    currency: str
    decimals: int
    publish: ClassPrices
    dispatch: ClassPrices
    owners: Mapping[str, str]


def read_prices(path: Path) -> PriceTable:
    """Read and check a price table.

    Raises:
        RefusedInput: it cannot be read or used.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise RefusedInput(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, ArithmeticError) as error:  # a number may be too long to be read
        raise RefusedInput(f"{path}: not TOML: {error}") from error
    _known(str(path), table, _KEYS)
    return PriceTable(
        currency=_currency(f"{path}: currency", table.get("currency")),
        decimals=_decimals(f"{path}: decimals", table.get("decimals", 2)),
        publish=_prices(f"{path}: publish", table.get("publish")),
        dispatch=_prices(f"{path}: dispatch", table.get("dispatch")),
        owners=_owners(f"{path}: owners", table.get("owners", {})),
    )


def _known(place: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    unknown = sorted(set(table) - set(keys))
    if unknown:
        raise RefusedInput(f"{place}: {unknown[0]!r} is unknown; known are {', '.join(keys)}")


def _currency(place: str, value: Any) -> str:
    if not isinstance(value, str) or _CURRENCY.fullmatch(value) is None:
        raise RefusedInput(f"{place}: write 1 to 12 letters, such as EUR, not {value!r}")
    return value


def _decimals(place: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _DECIMALS_MAX:
        raise RefusedInput(
            f"{place}: write a whole number from 0 to {_DECIMALS_MAX}, not {value!r}"
        )
    return value


def _prices(place: str, value: Any) -> ClassPrices:
    if not isinstance(value, dict):
        raise RefusedInput(f"{place}: write a table with {' and '.join(_UNITS)}")
    _known(place, value, _UNITS)
    found = {unit: _price(f"{place}.{unit}", value.get(unit)) for unit in _UNITS}
    return ClassPrices(**found)


def _price(place: str, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise RefusedInput(f"{place}: write a number, 0 for what is free, not {value!r}")
    price = Decimal(value)
    if not price.is_finite() or not 0 <= price <= PRICE_MAX:
        raise RefusedInput(f"{place}: write a number from 0 to {PRICE_MAX:,}, not {value}")
    if price != round(price, PLACES):
        raise RefusedInput(f"{place}: write at most {PLACES} digits behind the point, not {value}")
    return price


def _owners(place: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise RefusedInput(f"{place}: write labels by tenant or tenant/namespace")
    if len(value) > OWNERS_MAX:
        raise RefusedInput(f"{place}: at most {OWNERS_MAX:,} labels, not {len(value):,}")
    for name, label in value.items():
        if not all(name.split("/")) or name.count("/") > 1:
            raise RefusedInput(f"{place}: {name!r} is neither a tenant nor tenant/namespace")
        if not isinstance(label, str) or not 0 < len(label) <= LABEL_MAX:
            raise RefusedInput(f"{place}.{name}: write a label of 1 to {LABEL_MAX} characters")
    return value
