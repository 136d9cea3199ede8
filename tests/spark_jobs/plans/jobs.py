"""The plans that each job makes of tables of which Spark knows the columns, and neither rows nor size."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_jobs import showback, usage_rollup
from spark_jobs.convergence_report import frames
from spark_jobs.coverage import coverage, with_missing
from spark_jobs.prices import ClassPrices, PriceTable
from spark_jobs.tables import SCHEMAS
from spark_jobs.trees import tree_hours
from tests.spark_jobs.plans.outline import outline

FOLDER = Path(__file__).parent
_PRICES = PriceTable(
    currency="EUR",
    decimals=2,
    publish=ClassPrices(Decimal(1), Decimal(1)),
    dispatch=ClassPrices(Decimal(1), Decimal(1)),
    owners={"shop": "commerce", "shop/orders": "orders"},
)


def plans_of_all_jobs(spark: SparkSession) -> dict[str, str]:
    """The text of each job, by name: a section for each frame that is computed for itself."""
    jobs = {
        "report": _of_report(spark),
        "rollup": _of_rollup(spark),
        "showback": _of_showback(spark),
    }
    return {
        job: "\n".join(f"{name}\n{outline(frame)}\n" for name, frame in of_job.items())
        for job, of_job in jobs.items()
    }


def _of_report(spark: SparkSession) -> dict[str, DataFrame]:
    planned: dict[str, DataFrame] = {}

    def kept(frame: DataFrame, name: str) -> DataFrame:
        planned[name] = frame
        return _unknown(spark, frame)

    made = frames({table: _table(spark, table) for table in SCHEMAS}, kept)
    return {name: planned[name] for name in made}


def _of_rollup(spark: SparkSession) -> dict[str, DataFrame]:
    hours = usage_rollup.hours(_table(spark, "admitted"), _table(spark, "configuration"))
    covered = coverage({table: _table(spark, table) for table in SCHEMAS})
    return {
        "coverage": covered,
        "hours": hours,
        "lines": with_missing(_unknown(spark, hours), _unknown(spark, covered), "hour"),
        "namespaces": usage_rollup.namespace_hours(_table(spark, "namespaces")),
        "trees": tree_hours(_table(spark, "admitted"), _table(spark, "trees")),
    }


def _of_showback(spark: SparkSession) -> dict[str, DataFrame]:
    usage = showback.usage_hours(_table(spark, "namespaces"))
    lines = showback.bill(_unknown(spark, usage), _PRICES)
    return {"usage": usage, "lines": lines, "totals": showback.totals(_unknown(spark, lines))}


def _table(spark: SparkSession, name: str) -> DataFrame:
    return spark.createDataFrame(spark.sparkContext.emptyRDD(), SCHEMAS[name])


def _unknown(spark: SparkSession, like: DataFrame) -> DataFrame:
    return spark.createDataFrame(spark.sparkContext.emptyRDD(), like.schema)
