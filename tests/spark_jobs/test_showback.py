"""The bill: exact, added up, and no formula in a spreadsheet."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from coordinator.adapters.recorder import tables as recorder
from spark_jobs.prices import ClassPrices, PriceTable
from spark_jobs.recording import open_recording
from spark_jobs.refusals import RefusedInput
from spark_jobs.showback import Bill, as_csv, bill, main, make, neutral, text, totals, usage_hours
from spark_jobs.tables import SCHEMAS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

START = datetime(2027, 1, 31, 23, 59, tzinfo=UTC)
PRICES = PriceTable(
    "EUR",
    2,
    publish=ClassPrices(Decimal("0.05"), Decimal("0.4")),
    dispatch=ClassPrices(Decimal("0.02"), Decimal("0.1")),
    owners={"shop": "commerce", "shop/orders": "=orders"},
)

Minute = tuple[datetime, str, str, list[str], str, int, int]
"""A minute, tenant, namespace, groups, class, messages and bytes."""


def _row(minute: Minute) -> tuple[object, ...]:
    at, *rest, messages, size = minute
    return ("east", "a", 1, "run", at, 1, at, 60_000_000, *rest, messages, size, 0, 0)


def _lines(
    spark: SparkSession, minutes: Sequence[Minute], prices: PriceTable = PRICES
) -> DataFrame:
    table = spark.createDataFrame([_row(minute) for minute in minutes], SCHEMAS["namespaces"])
    return bill(usage_hours(table), prices)


def test_a_namespace_is_billed_once_whatever_groups_it_is_in(spark: SparkSession) -> None:
    """10 GB at 0.05 and 20 million messages at 0.40 are 8.50."""
    groups = ["orders", "shop", "all"]
    (line,) = _lines(
        spark, [(START, "shop", "orders", groups, "Publish", 20_000_000, 10_000_000_000)]
    ).collect()

    assert (line["month"], line["owner"]) == ("2027-01", "=orders")
    assert line["amount"] == Decimal("8.50")


def test_each_class_has_its_own_prices_and_each_month_its_own_lines(spark: SparkSession) -> None:
    """The label of a namespace goes before its tenant's; what has none is billed all the same."""
    later = START.replace(year=2027, month=2, day=1)
    minutes: list[Minute] = [
        (START, "shop", "mail", [], "Dispatch", 10_000_000, 0),
        (later, "shop", "mail", [], "Dispatch", 20_000_000, 0),
        (later, "bank", "ledger", [], "Publish", 1_000_000, 0),
    ]
    found = {
        (row["month"], row["tenant"], row["owner"]): row["amount"]
        for row in _lines(spark, minutes).collect()
    }

    assert found == {
        ("2027-01", "shop", "commerce"): Decimal("1.00"),
        ("2027-02", "shop", "commerce"): Decimal("2.00"),
        ("2027-02", "bank", ""): Decimal("0.40"),
    }


@pytest.mark.parametrize(
    ("messages", "amount"), [(12_499, "0.00"), (12_500, "0.01"), (37_499, "0.01"), (37_500, "0.02")]
)
def test_a_line_is_rounded_half_up(spark: SparkSession, messages: int, amount: str) -> None:
    """At 0.40 a million, 12,500 messages are exactly half a cent."""
    (line,) = _lines(spark, [(START, "t", "n", [], "Publish", messages, 0)]).collect()
    assert line["amount"] == Decimal(amount)


def test_sums_add_up_to_the_last_cent_and_amounts_are_exact(spark: SparkSession) -> None:
    """Random usage and prices against Python's decimals, up to petabytes; the seed is printed."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)

    def price() -> Decimal:
        return Decimal(rng.randrange(10**12)).scaleb(-6)

    prices = PriceTable("EUR", 3, ClassPrices(price(), price()), ClassPrices(price(), price()), {})
    minutes: list[Minute] = [
        (START, f"t{n % 7}", f"n{n}", [], rng.choice(["Publish", "Dispatch"]),
         rng.randrange(10 ** rng.randint(1, 13)), rng.randrange(10 ** rng.randint(1, 17)))
        for n in range(200)
    ]  # fmt: skip
    lines = _lines(spark, minutes, prices)
    found = {row["namespace"]: row["amount"] for row in lines.collect()}

    for _, _, namespace, _, kind, messages, size in minutes:
        of_class = prices.publish if kind == "Publish" else prices.dispatch
        exact = of_class.per_gb * size / 10**9 + of_class.per_million_messages * messages / 10**6
        wanted = exact.quantize(Decimal("0.001"), ROUND_HALF_UP)
        assert found[namespace] == wanted, f"seed {seed}, {namespace}"
    sums = totals(lines).collect()
    assert sum(row["amount"] for row in sums) == sum(found.values()), f"seed {seed}"


@pytest.mark.parametrize(
    "name",
    [
        "=HYPERLINK(1)",
        "+1",
        "-1",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        " =1",
        "\n=1",
        "\N{FULLWIDTH EQUALS SIGN}1",
    ],
)
def test_a_cell_that_a_spreadsheet_would_compute_begins_with_an_apostrophe(name: str) -> None:
    """Quotes and separators in it stay inside its own quotes."""
    assert neutral(name) == f"'{name}"
    (row,) = list(
        csv.DictReader(io.StringIO(as_csv(["tenant"], [{"tenant": f'{name}","=2'}]), newline=""))
    )
    assert row["tenant"] == f'\'{name}","=2'


def test_other_cells_stay_as_they_are() -> None:
    """Numbers are numbers, names are names."""
    assert neutral("shop-a=b") == "shop-a=b"
    assert as_csv(["a", "b"], [{"a": "x", "b": Decimal("1.50")}]) == '"a","b"\r\n"x",1.50\r\n'


def _record(place: Path, minutes: Sequence[Minute]) -> None:
    """Write minutes as a recorder's file of its table."""
    schema = recorder.SCHEMAS[recorder.RecordedTable.NAMESPACES]
    columns = list(zip(*map(_row, minutes), strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    file = place / "table=namespaces/version=1/date=2027-01-31/a.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), file)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bill, Path]:
    """A bill of two tenants, made twice."""
    place, out = tmp_path_factory.mktemp("recorded"), tmp_path_factory.mktemp("bill")
    _record(
        place,
        [
            (START, "shop", "orders", ["orders"], "Publish", 20_000_000, 10_000_000_000),
            (START, "=bank", "-ledger", [], "Dispatch", 5_000_000, 0),
        ],
    )
    make(open_recording(spark, place, required=("namespaces",)), PRICES, out)
    return make(open_recording(spark, place, required=("namespaces",)), PRICES, out), out


def test_parquet_and_csv_have_the_same_lines_and_totals(made: tuple[Bill, Path]) -> None:
    """Made twice, it is the same bill."""
    bill_made, out = made
    in_parquet = pq.read_table(out / "bill").to_pylist()
    with (out / "bill.csv").open(encoding="utf-8", newline="") as file:
        in_csv = list(csv.DictReader(file))
    with (out / "totals.csv").open(encoding="utf-8", newline="") as file:
        sums = list(csv.DictReader(file))

    assert bill_made.lines == len(in_parquet) == len(in_csv) == 2
    assert sum(row["amount"] for row in in_parquet) == Decimal("9.00")
    assert sum(Decimal(row["amount"]) for row in in_csv) == Decimal("9.00")
    assert sum(Decimal(row["amount"]) for row in sums) == Decimal("9.00")
    assert {row["tenant"] for row in in_csv} == {"shop", "'=bank"}
    assert {row["owner"] for row in in_csv} == {"'=orders", ""}
    assert {row["missing_s"] for row in in_csv} == {"0"}
    told = "no row of table lifecycle: whether hours are missing is not known"
    assert (bill_made.warnings, bill_made.exit_code) == ((told,), 1)


def test_the_totals_fit_a_screen(made: tuple[Bill, Path]) -> None:
    """A line for each tenant and owner, under the currency."""
    shown = text(made[0])

    assert "EUR" in shown
    assert "8.50" in shown
    assert "=orders" in shown


def test_a_recording_without_namespaces_is_refused(spark: SparkSession, story: Path) -> None:
    """A simulated run knows groups only; a bill of nothing would say that nothing is owed."""
    with pytest.raises(RefusedInput, match="namespaces"):
        open_recording(spark, story, required=("namespaces",))


def test_wrong_use_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This holds where spark-submit calls it, too."""
    prices = tmp_path / "prices.toml"
    prices.write_text("currency = 3\n")

    assert main([str(tmp_path), "--prices", str(prices), "--out", str(tmp_path / "out")]) == 2
    assert "currency: write" in capsys.readouterr().err
