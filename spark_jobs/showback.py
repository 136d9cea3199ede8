"""Showback: the bill of each tenant and owner, from what their namespaces published and received.

Run as ``pulsar-quota showback DIR --prices FILE --out DIR`` or with spark-submit. Usage by tenant,
namespace, class and hour goes to ``usage/date=YYYY-MM-DD`` (days.py says how often a day is written); the
bill is made of all days that were ever written: ``bill`` (Parquet), ``bill.csv`` with the same lines, and
``totals.csv``.

Each line is a month, tenant, namespace and class. Amounts are computed in whole numbers and rounded once,
half up, at the line; every total is the sum of rounded lines, so sums add up whichever way one adds. A
namespace is billed once, however many groups it belongs to. What was not recorded is on no bill: each
line says how many seconds of its month are missing, of all brokers, and how many rows; ``coverage`` has
them by broker and hour.

Cells of the CSV files that a spreadsheet would take for a formula begin with an apostrophe: names come
from tenants, and Pulsar accepts ``=1`` as one.

Exit codes: 0 done; 1 done, but files were left out or hours are not whole; 2 wrong use, or input of which
no bill can be made.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.claims import writing
from spark_jobs.coverage import coverage, warnings_of, with_missing
from spark_jobs.days import write_days
from spark_jobs.places import StorePlace, place_of
from spark_jobs.prices import PLACES, ClassPrices, PriceTable, read_prices
from spark_jobs.program import parser_of, run
from spark_jobs.recording import ReadOptions, Recording, recording_of
from spark_jobs.session import computing

REQUIRED = ("namespaces",)
"""Without it nothing is known of a tenant."""
LINES_MAX = 1_000_000
"""Of the CSV file: as many rows as spreadsheets open."""
TOTALS_MAX = 2_000
"""Shown on a terminal; totals.csv has as many as LINES_MAX."""
NO_OWNER = ""

_USAGE = ["tenant", "namespace", "monitoring_class"]
_LINE = ["month", "tenant", "owner", "namespace", "monitoring_class"]
_COLUMNS = (*_LINE, "messages", "bytes", "amount", "currency", "missing_s", "rows_dropped")
_TOTALS = ("month", "tenant", "owner", "messages", "bytes", "amount", "currency")
_SCALE = PLACES + 9
"""Amounts are whole numbers of 10 ** -15: a price of six digits, of a byte of 10 ** 9."""
_FORMULA = (
    "=", "+", "-", "@", "\t", "\r", "\N{FULLWIDTH EQUALS SIGN}", "\N{FULLWIDTH PLUS SIGN}",
    "\N{FULLWIDTH HYPHEN-MINUS}", "\N{FULLWIDTH COMMERCIAL AT}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill that was written: its totals by month, tenant and owner, and how it ends."""

    currency: str
    totals: tuple[Mapping[str, Any], ...]
    lines: int
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when nothing was left out."""
        return 1 if self.warnings else 0


def usage_hours(namespaces: DataFrame) -> DataFrame:
    """One row per tenant, namespace, class and hour: date, messages, bytes and broker_minutes."""
    hour = F.date_trunc("hour", "minute").alias("hour")
    return (
        namespaces.groupBy(*_USAGE, hour)
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.count("*").alias("broker_minutes"),
        )
        .withColumn("date", F.to_date("hour"))
    )


def bill(usage: DataFrame, prices: PriceTable) -> DataFrame:
    """One line per month, tenant, owner, namespace and class: messages, bytes, amount, currency.

    Args:
        usage: usage hours.
        prices: of the bill.
    """
    owned = _with_owners(usage, prices.owners)
    month = F.date_format("date", "yyyy-MM").alias("month")
    lines = owned.groupBy(month, *_LINE[1:]).agg(
        F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")
    )
    published = F.col("monitoring_class") == "Publish"
    exact = F.when(published, _exact(prices.publish)).otherwise(_exact(prices.dispatch))
    unit = 10 ** (_SCALE - prices.decimals)
    # Whole numbers below 10 ** 38 throughout: a division of decimals would lose digits.
    rounded = F.expr(f"(exact + {unit // 2}BD) div {unit}BD").cast("decimal(19,0)")
    smallest = F.lit(Decimal(1).scaleb(-prices.decimals))
    return lines.withColumn("exact", exact).select(
        *_LINE, "messages", "bytes",
        (rounded * smallest).alias("amount"),
        F.lit(prices.currency).alias("currency"),
    )  # fmt: skip


def totals(lines: DataFrame) -> DataFrame:
    """One row per month, tenant and owner: the sums of the lines."""
    return lines.groupBy("month", "tenant", "owner", "currency").agg(
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.sum("amount").alias("amount"),
    )


def neutral(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" \n").startswith(_FORMULA) else text


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV (RFC 4180), each cell of text in quotes and neutral."""
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(
            [value if _is_number(value := row[name]) else neutral(value) for name in columns]
        )
    return written.getvalue()


def make(recording: Recording, prices: PriceTable, out: Path | StorePlace) -> Bill:
    """Write the usage of every recorded day, and the bill of all days that were ever written.

    Raises:
        RefusedInput: nothing can be made of it.
        OSError: the output cannot be written.
    """
    spark, failure = recording.spark, f"{recording.directory}: Spark could not make a bill of it"
    with writing(spark, out) as (target, store), computing(spark, failure):
        keep = partial(write_days, spark, cluster=recording.cluster)
        covered = keep(coverage(recording.tables), target / "coverage", "recorded_s")
        found = usage_hours(recording.tables["namespaces"])
        written = keep(found, target / "usage", "broker_minutes")
        lines = with_missing(bill(written, prices), covered, "month").persist()
        lines.repartition(1).write.mode("overwrite").parquet((target / "bill").for_spark)
        number = lines.count()
        ordered = lines.orderBy(*_LINE).limit(LINES_MAX)
        of_lines = as_csv(_COLUMNS, (row.asDict() for row in ordered.toLocalIterator()))
        store.put(target / "bill.csv", of_lines.encode())
        sums = [
            row.asDict() for row in totals(lines).orderBy(*_TOTALS[:3]).limit(LINES_MAX).collect()
        ]
        store.put(target / "totals.csv", as_csv(_TOTALS, sums).encode())
        told = warnings_of(recording, covered)
    more = number - LINES_MAX
    cut = (f"bill.csv lacks {more:,} lines, which are in the Parquet files",) if more > 0 else ()
    return Bill(prices.currency, tuple(sums), number, (*recording.warnings, *told, *cut))


def produce(
    directory: Path | StorePlace | str,
    prices: Path,
    out: Path | StorePlace | str,
    **reading: Unpack[ReadOptions],
) -> Bill:
    """Make a bill with a session of its own.

    Raises:
        RefusedInput: the price table cannot be used, or nothing can be made of the directory.
        OSError: the output cannot be written.
    """
    table = read_prices(prices)  # refuses before a session is started
    target = place_of(out)
    recording = recording_of("pulsar-quota showback", directory, required=REQUIRED, **reading)
    return make(recording, table, target)


def text(made: Bill) -> str:
    """Return the totals as a table for a terminal."""
    form = "{:<8} {:<24} {:<24} {:>16} {:>18} {:>16}"
    lines = [form.format("month", "tenant", "owner", "messages", "bytes", made.currency)]
    for row in made.totals[:TOTALS_MAX]:
        amounts = (f"{row['messages']:,}", f"{row['bytes']:,}", f"{row['amount']:,}")
        lines.append(form.format(row["month"], row["tenant"], row["owner"] or "-", *amounts))
    more = len(made.totals) - TOTALS_MAX
    lines += [f"... and {more:,} more, in totals.csv"] * (more > 0)
    return "\n".join([*lines, *(f"warning: {warning}" for warning in made.warnings)])


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = parser_of("showback", __doc__, "where usage and bill go")
    parser.add_argument("--prices", type=Path, required=True, help="the price table, TOML")
    return run(parser, arguments, produce, text)


def _with_owners(usage: DataFrame, owners: Mapping[str, str]) -> DataFrame:
    """Add owner: the label of the namespace, or else of its tenant, or else none."""
    if not owners:
        return usage.withColumn("owner", F.lit(NO_OWNER))
    table = pa.table({"place": [*owners], "label": [*owners.values()]})
    labels = usage.sparkSession.createDataFrame(table)
    own = labels.select(F.col("place").alias("own_place"), F.col("label").alias("own"))
    tenants = labels.select(F.col("place").alias("tenant_place"), F.col("label").alias("whole"))
    place = F.concat_ws("/", "tenant", "namespace")
    return (
        usage.join(F.broadcast(own), place == F.col("own_place"), "left")
        .join(F.broadcast(tenants), F.col("tenant") == F.col("tenant_place"), "left")
        .withColumn("owner", F.coalesce("own", "whole", F.lit(NO_OWNER)))
        .drop("own_place", "own", "tenant_place", "whole")
    )


def _exact(prices: ClassPrices) -> Column:
    """The price of a line in units of 10 ** -15, as a whole number."""
    of_bytes = int(prices.per_gb.scaleb(PLACES))
    of_messages = int(prices.per_million_messages.scaleb(PLACES)) * 1_000
    return F.expr(
        f"cast(cast(bytes as decimal(20,0)) * {of_bytes}BD as decimal(38,0))"
        f" + cast(cast(messages as decimal(20,0)) * {of_messages}BD as decimal(38,0))"
    ).cast("decimal(38,0)")


def _is_number(value: object) -> bool:
    return isinstance(value, int | Decimal)


if __name__ == "__main__":
    sys.exit(main())
