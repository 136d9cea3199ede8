"""The price table: what is read of it, and what is refused by field and fix."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from spark_jobs.prices import ClassPrices, PriceTable, read_prices
from spark_jobs.refusals import RefusedInput

WHOLE = """
currency = "EUR"
decimals = 2
[publish]
per_gb = 0.1
per_million_messages = 1
[dispatch]
per_gb = 0.05
per_million_messages = 0
[owners]
shop = "=cmd()"
"shop/orders" = "team-orders"
"""


def _read(tmp_path: Path, text: str) -> PriceTable:
    file = tmp_path / "prices.toml"
    file.write_text(text, encoding="utf-8")
    return read_prices(file)


def test_prices_are_decimal_numbers_as_they_are_written(tmp_path: Path) -> None:
    """A tenth is a tenth, not the binary fraction next to it."""
    table = _read(tmp_path, WHOLE)

    assert table.publish == ClassPrices(Decimal("0.1"), Decimal(1))
    assert (table.currency, table.decimals) == ("EUR", 2)
    assert table.owners == {"shop": "=cmd()", "shop/orders": "team-orders"}


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ("0.1", "-0.1", "publish.per_gb: write a number from 0 to 1,000,000, not -0.1"),
        ("0.1", "nan", "publish.per_gb: write a number from 0"),
        ("0.1", "1e999", "publish.per_gb: write a number from 0"),
        ("0.1", "1" * 5_000, "not TOML"),
        ("0.1", "true", "publish.per_gb: write a number, 0 for what is free, not True"),
        ("0.1", '"0.1"', "publish.per_gb: write a number, 0 for what is free, not '0.1'"),
        ("0.1", "0.0000001", "at most 6 digits behind the point"),
        ("per_gb = 0.1\n", "", "publish.per_gb: write a number, 0 for what is free, not None"),
        ("per_gb = 0.1", "per_tb = 0.1", "publish: 'per_tb' is unknown; known are per_gb"),
        ("[publish]", "[publich]", "'publich' is unknown; known are currency"),
        ('"EUR"', '"=1+1"', "currency: write 1 to 12 letters"),
        ("decimals = 2", "decimals = 7", "decimals: write a whole number from 0 to 6, not 7"),
        ("decimals = 2", "decimals = true", "decimals: write a whole number from 0 to 6, not True"),
        ('"shop/orders"', '"shop/orders/topic"', "neither a tenant nor tenant/namespace"),
        ('"team-orders"', "7", "owners.shop/orders: write a label"),
        ('"team-orders"', '""', "owners.shop/orders: write a label"),
        ('currency = "EUR"', "currency =", "not TOML"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    tmp_path: Path, written: str, instead: str, said: str
) -> None:
    """The message names the file, the field and the fix."""
    with pytest.raises(RefusedInput) as refused:
        _read(tmp_path, WHOLE.replace(written, instead))
    assert said in str(refused.value)
    assert "prices.toml" in str(refused.value)


def test_a_table_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    """As one that is no text."""
    with pytest.raises(RefusedInput, match="cannot be read"):
        read_prices(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RefusedInput, match="not TOML"):
        read_prices(tmp_path / "binary.toml")
