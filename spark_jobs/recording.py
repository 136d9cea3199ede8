"""Recorded tables as Spark reads them: ``table=NAME/version=V/date=YYYY-MM-DD`` below a place.

Spark lists and reads these directories itself, on its executors; names that begin with a dot or an
underscore are no input, as everywhere in Spark. One job looks at all files before any figure is computed,
and counts rows by table and cluster. The rules:

* a file that cannot be read, or whose rows are none of its table's, ends the job with its name. On
  request it is left out and told; then every page of every file is read once more, as Spark would use
  what it found in a file before the damage;
* what another version of the recorder wrote is left out and told: a column may mean something else there;
* no row of a required table, or rows of several clusters when none was asked for: refused, because every
  figure would mislead.

Each table is listed once: files that come later are in none of the figures, and one that is deleted
before it is read ends the job with its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypedDict

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.types import MapType, StructType

from coordinator.adapters.recorder.tables import SCHEMA_VERSION
from spark_jobs.places import StorePlace, place_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.session import computing, enlarge, is_small, session
from spark_jobs.stores import NoSuchFile, Store, StoreFailure, store_of
from spark_jobs.tables import MARKS, RARE, REQUIRED, SCHEMAS

UNREADABLE_MAX = 1_000
"""Files that may be left out; where there are more, it is not a recording with some bad files."""

SKIP_UNREADABLE = "leave files out that cannot be read, and name them"
"""The option of every job."""

_TABLE, _VERSION = "table=", "version="
_PATH = "_metadata.file_path"


@dataclass(frozen=True, slots=True)
class Recording:
    """The rows of one cluster's recorded tables.

    Args:
        spark: the session.
        directory: where they are.
        cluster: whose recording it is.
        tables: every table by name; one that was not recorded has no row.
        rows: their numbers, of tables that have any.
        left_out: paths that were not read, each with its reason.
    """

    spark: SparkSession
    directory: StorePlace
    cluster: str
    tables: Mapping[str, DataFrame]
    rows: Mapping[str, int]
    left_out: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Tables without a single row that every recording has."""
        return tuple(table for table in SCHEMAS if table not in RARE and not self.rows.get(table))

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence on the paths that were left out; none if there are none."""
        if not self.left_out:
            return ()
        more = len(self.left_out) - 1
        others = f", and {more:,} more" if more else ""
        return (f"left out: {self.left_out[0]}{others}",)


def session_for(
    name: str, cores: int, *recorded: StorePlace, required: Sequence[str] = REQUIRED
) -> SparkSession:
    """The running session, or a new one that suits these recordings.

    Raises:
        RefusedInput: a directory of this host has no recording; told before a session is started, which
            takes seconds.
    """
    for place in recorded:
        if place.is_here:
            _refuse_lacking(place, required, *_roots(None, place))
    return session(name, cores, quick=all(map(is_small, recorded)))


class ReadOptions(TypedDict, total=False):
    """The options of every job on its input: a cluster's name, local cores, bad files left out."""

    cluster: str | None
    cores: int
    skip_unreadable: bool


def recording_of(
    name: str,
    directory: Path | StorePlace | str,
    *,
    required: Sequence[str] = REQUIRED,
    cluster: str | None = None,
    cores: int = 2,
    skip_unreadable: bool = False,
) -> Recording:
    """Start a session that suits a recording, and open it; raises as both do."""
    place = place_of(directory)
    spark = session_for(name, cores, place, required=required)
    return open_recording(spark, place, cluster, required=required, skip_unreadable=skip_unreadable)


def open_recording(
    spark: SparkSession,
    directory: Path | StorePlace | str,
    cluster: str | None = None,
    *,
    required: Sequence[str] = REQUIRED,
    skip_unreadable: bool = False,
) -> Recording:
    """Look at everything that was recorded below a directory.

    Args:
        spark: the session.
        directory: what the sidecars were told to record to.
        cluster: read this cluster's rows only; None when there is only one.
        required: tables without which nothing can be made.
        skip_unreadable: leave files out that cannot be read.

    Raises:
        RefusedInput: there is nothing to report on, too much, or a file that cannot be read.
    """
    directory = place_of(directory)
    roots, left_out = _roots(spark, directory)
    tables = {
        table: nothing(spark, columns) for table, columns in SCHEMAS.items() if table not in roots
    }
    hint = "" if skip_unreadable else " (--skip-unreadable leaves such files out)"
    with computing(spark, f"{directory}: cannot be read{hint}"):
        for table, root in roots.items():
            frame = _reader(spark, table, skip=skip_unreadable).parquet(root)
            if skip_unreadable:
                unreadable = _unreadable(spark, table, root)
                left_out += (f"{path}: cannot be read" for path in unreadable)
                frame = frame.where(~F.col(_PATH).isin(unreadable)) if unreadable else frame
            tables[table] = frame
        counts = _counts({table: tables[table] for table in roots})
    chosen = _choose_cluster(directory, sorted({name for _, name in counts}), cluster)
    rows = {table: number for (table, name), number in counts.items() if name == chosen}
    _refuse_lacking(directory, required, rows, left_out)
    if len({name for _, name in counts}) > 1:
        tables = {name: frame.where(F.col("cluster") == chosen) for name, frame in tables.items()}
    enlarge(spark, sum(rows.values()))
    # Without the columns of its directories.
    of_columns = {name: frame.select(*SCHEMAS[name].names) for name, frame in tables.items()}
    return Recording(spark, directory, chosen, of_columns, rows, tuple(left_out))


def nothing(spark: SparkSession, columns: StructType) -> DataFrame:
    """A frame of these columns without a row; Spark leaves out of a plan what is known to be empty."""
    # As text: Spark is asked once, and not four times for each column.
    nulls = (f"cast(null as {field.dataType.simpleString()}) as {field.name}" for field in columns)
    return spark.range(0).selectExpr(*nulls)


def _refuse_lacking(
    directory: StorePlace,
    required: Sequence[str],
    found: Collection[str],
    left_out: Sequence[str],
) -> None:
    lacking = [table for table in required if table not in found]
    if lacking:
        reason = f"; {left_out[0]}" if left_out else "; is it what record_dir names?"
        raise RefusedInput(
            f"{directory}: no row of table {' and '.join(lacking)}, without which there are no"
            f" figures{reason}"
        )


def _roots(spark: SparkSession | None, directory: StorePlace) -> tuple[dict[str, str], list[str]]:
    """The directory of each table that was recorded, and what is there besides.

    Raises:
        RefusedInput: the place is not there, or its store does not answer.
    """
    try:
        return _listed(store_of(directory, spark), directory)
    except NoSuchFile as error:
        raise RefusedInput(f"{directory}: no such directory; name what record_dir names") from error
    except StoreFailure as error:
        raise RefusedInput(str(error)) from error
    except OSError as error:
        raise RefusedInput(f"{directory}: cannot be read: {error.strerror}") from error


def _listed(store: Store, directory: StorePlace) -> tuple[dict[str, str], list[str]]:
    roots: dict[str, str] = {}
    left_out: list[str] = []
    for name in store.directories(directory):
        if not name.startswith(_TABLE):
            continue
        table = name.removeprefix(_TABLE)
        if table not in SCHEMAS:
            left_out.append(f"{name}: no table that this release knows")
            continue
        for below in store.directories(directory / name):
            if below == f"{_VERSION}{SCHEMA_VERSION}":
                roots[table] = (directory / name / below).for_spark
            elif not below.startswith((".", "_")):
                told = f"this release reads {_VERSION}{SCHEMA_VERSION}"
                left_out.append(f"{name}/{below}: {told}")
    return roots, left_out


def _reader(spark: SparkSession, table: str, *, skip: bool) -> DataFrameReader:
    # Recorders write a checksum for every page; a damaged one must end the job, not change a figure.
    return (
        spark.read.schema(SCHEMAS[table])
        .option("parquet.page.verify-checksum.enabled", "true")
        .option("ignoreCorruptFiles", str(skip).lower())
    )


def _counts(frames: Mapping[str, DataFrame]) -> Counter[tuple[str, str]]:
    """Rows by table and cluster.

    Raises:
        RefusedInput: a file has rows that no recorder wrote into this table.
    """
    if not frames:
        return Counter()
    looks = (
        frame.select(F.lit(table).alias("table"), "cluster", _foreign(table).alias("foreign"))
        for table, frame in frames.items()
    )
    counts = Counter[tuple[str, str]]()
    for row in (
        reduce(DataFrame.union, looks).groupBy("table", "cluster", "foreign").count().collect()
    ):
        if row["foreign"]:
            strange = frames[row["table"]].where(_foreign(row["table"])).select(_PATH).first()
            raise RefusedInput(
                f"{strange and strange[0]}: no recorder wrote this into table={row['table']}"
            )
        counts[row["table"], row["cluster"]] += row["count"]
    return counts


def _foreign(table: str) -> Column:
    """Whether a row lacks what every row of this table has."""
    return F.col("cluster").isNull() | F.col(MARKS[table]).isNull()


def _unreadable(spark: SparkSession, table: str, root: str) -> list[str]:
    """The files of which not every row can be read, or some are foreign.

    Raises:
        RefusedInput: there are too many.
    """
    every = [
        F.to_json(field.name) if isinstance(field.dataType, MapType) else F.col(field.name)
        for field in SCHEMAS[table]
    ]
    frame = _reader(spark, table, skip=True).parquet(root)
    read = frame.groupBy(F.col(_PATH).alias("path")).agg(
        F.count_if(~_foreign(table)).alias("good"), F.max(F.xxhash64(*every)).alias("hash")
    )
    promised = frame.groupBy(F.col(_PATH).alias("path")).agg(F.count("*").alias("promised"))
    # The hash is asked for, or Spark would not read what it is made of.
    whole = read.join(promised, "path").where(
        (F.col("good") == F.col("promised")) & F.col("hash").isNotNull()
    )
    listed = spark.read.format("binaryFile").load(root).select(F.col(_PATH).alias("path"))
    bad = listed.join(whole, "path", "left_anti").orderBy("path").limit(UNREADABLE_MAX + 1)
    found = [row["path"] for row in bad.collect()]
    if len(found) > UNREADABLE_MAX:
        raise RefusedInput(f"{root}: more than {UNREADABLE_MAX:,} files cannot be read")
    return found


def _choose_cluster(directory: StorePlace, clusters: Sequence[str], cluster: str | None) -> str:
    if cluster is not None and cluster not in clusters:
        known = f"; there are {', '.join(clusters)}" if clusters else ""
        raise RefusedInput(f"{directory}: nothing of cluster {cluster!r}{known}")
    if cluster is None and len(clusters) > 1:
        raise RefusedInput(
            f"{directory}: rows of several clusters ({', '.join(clusters)}), whose figures must not"
            " be added up; choose one with --cluster"
        )
    return cluster or (clusters[0] if clusters else "")
