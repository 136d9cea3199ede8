"""The contents of a directory of recorded files, and which of them may be believed.

Every file's footer is read before any row is: a file says which table, cluster and schema version it
belongs to and which file it is. The rules:

* a file that is truncated, foreign, of another version or in another table's directory is skipped by name
  and reason, and the report ends with exit code 1;
* a copy of a file that is there already is skipped and counted; it would change no figure;
* a file that was merged into another one that is there is skipped and counted, too; of two merged files
  that share some, and neither of which replaces the other, one is skipped by name;
* a file under a dot name was never finished and is no input; it is counted;
* no usable file, a required table without any, or files of several clusters when none was asked for:
  refused, because every figure would mislead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it
from pyspark.sql.types import StructType

from spark_jobs.footers import SUFFIX, Footer, is_finished, read_footers
from spark_jobs.listing import exactly
from spark_jobs.places import StorePlace, place_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.stores import StoreFailure, store_of
from spark_jobs.tables import RARE, REQUIRED, SCHEMAS

_LOOKS = 5
"""The most times that a place is listed."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, by its path below the directory."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileIntake:
    """The files to read, and what was found besides.

    Args:
        directory: where they are.
        cluster: whose recording it is.
        paths: files by table.
        rows: rows by table.
        skipped: files that cannot be believed.
        duplicates: copies of files that are read.
        unfinished: files under a dot name.
        replaced: files whose rows are read from the file that they were merged into.
    """

    directory: StorePlace
    cluster: str
    paths: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, int]
    skipped: tuple[Skipped, ...]
    duplicates: int
    unfinished: int
    replaced: int = 0

    @property
    def missing(self) -> tuple[str, ...]:
        """Tables without a single file that every recording has."""
        return tuple(table for table in SCHEMAS if table not in RARE and not self.paths.get(table))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Files that were left out, in words."""
        return (_told(self.skipped),) if self.skipped else ()


def examine(
    directory: Path | StorePlace,
    cluster: str | None = None,
    required: Sequence[str] = REQUIRED,
    spark: SparkSession | None = None,
) -> FileIntake:
    """Look at every file below a directory.

    Args:
        directory: what the sidecars were told to record to.
        cluster: read this cluster's files only; None when there is only one.
        required: tables without which nothing can be made.
        spark: the session, where a store needs one.

    Raises:
        RefusedInput: there is nothing to report on, or too much.
    """
    directory = place_of(directory)
    try:
        unfinished, footers = _look(directory, spark)
    except FileNotFoundError as error:
        raise RefusedInput(f"{directory}: no such directory; name what record_dir names") from error
    except StoreFailure as error:
        raise RefusedInput(str(error)) from error
    good = [footer for footer in footers if not footer.trouble]
    chosen = _choose_cluster(directory, good, cluster)
    of_cluster = [footer for footer in good if footer.cluster == chosen]
    unique = list({(footer.table, footer.file): footer for footer in reversed(of_cluster)}.values())
    kept, shared = _without_replaced(unique)
    skipped = [
        Skipped(footer.stored.below, footer.trouble)
        for footer in (*footers, *shared)
        if footer.trouble
    ]
    intake = _intake(directory, chosen, kept, skipped)
    intake = replace(
        intake,
        duplicates=len(of_cluster) - len(unique),
        replaced=len(unique) - len(kept) - len(shared),
        unfinished=unfinished,
    )
    lacking = [table for table in required if not intake.paths.get(table)]
    if lacking:
        raise RefusedInput(
            f"{directory}: no usable file of table {' and '.join(lacking)}, without which there are"
            f" no figures{_first_reason(skipped)}"
        )
    return intake


def _look(directory: StorePlace, spark: SparkSession | None) -> tuple[int, list[Footer]]:
    """Count the unfinished files, and read the footers of the others.

    Retention and compaction delete files, and a compaction's new file may not have been there yet: so
    where one is gone when its turn comes, all are listed anew.
    """
    store = store_of(directory, spark)
    for _ in range(_LOOKS):
        found = [file for file in store.files(directory) if file.name.endswith(SUFFIX)]
        finished = [file for file in found if is_finished(file)]
        footers = read_footers(store, finished)
        if not any(footer.gone for footer in footers):
            return len(found) - len(finished), footers
    raise RefusedInput(
        f"{directory}: files are deleted faster than they are looked at; stop what deletes them"
    )


def read(spark: SparkSession, intake: FileIntake, table: str) -> DataFrame:
    """A table's rows; none when it has no file."""
    paths = intake.paths.get(table, ())
    if not paths:
        return nothing(spark, SCHEMAS[table])
    # Recorders write a checksum for every page; a damaged one must end the job, not change a figure.
    reader = spark.read.option("parquet.page.verify-checksum.enabled", "true")
    return exactly(reader.schema(SCHEMAS[table]), paths)


def nothing(spark: SparkSession, columns: str) -> DataFrame:
    """A frame of these columns without a row; Spark leaves out of a plan what is known to be empty."""
    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    nulls = (F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields)
    return spark.range(0).select(*nulls)


def _intake(
    directory: StorePlace, cluster: str, files: Iterable[Footer], skipped: list[Skipped]
) -> FileIntake:
    rows: Counter[str] = Counter()
    paths: dict[str, list[str]] = {}
    for footer in sorted(files, key=lambda footer: footer.stored.below):
        if footer.rows:
            rows[footer.table] += footer.rows
            paths.setdefault(footer.table, []).append(footer.stored.place.for_spark)
    return FileIntake(
        directory=directory,
        cluster=cluster,
        paths={table: tuple(found) for table, found in paths.items()},
        rows=dict(rows),
        skipped=tuple(skipped),
        duplicates=0,
        unfinished=0,
    )


def _without_replaced(files: Iterable[Footer]) -> tuple[list[Footer], list[Footer]]:
    """Files without those that were merged into others, and merged files that cannot be believed."""
    kept: list[Footer] = []
    shared: list[Footer] = []
    taken: dict[tuple[str, str], Footer] = {}
    for footer in sorted(files, key=lambda footer: (-len(footer.replaces), footer.stored.below)):
        if (footer.table, footer.file) in taken:
            continue
        others = {
            taken[key].stored.name
            for name in footer.replaces
            if (key := (footer.table, name)) in taken
        }
        if others:
            trouble = f"some of its rows are in {min(others)}, too"
            shared.append(replace(footer, trouble=trouble))
            continue
        kept.append(footer)
        taken |= {(footer.table, name): footer for name in footer.replaces}
    return kept, shared


def _choose_cluster(directory: StorePlace, good: list[Footer], cluster: str | None) -> str:
    clusters = sorted({footer.cluster for footer in good})
    if cluster is not None and cluster not in clusters:
        known = f"; there are {', '.join(clusters)}" if clusters else ""
        raise RefusedInput(f"{directory}: nothing of cluster {cluster!r}{known}")
    if cluster is None and len(clusters) > 1:
        raise RefusedInput(
            f"{directory}: files of several clusters ({', '.join(clusters)}), whose figures must not"
            " be added up; choose one with --cluster"
        )
    return cluster or (clusters[0] if clusters else "")


def _first_reason(skipped: list[Skipped]) -> str:
    if not skipped:
        return "; is it what record_dir names?"
    return f"; {_told(skipped)}"


def _told(skipped: Sequence[Skipped]) -> str:
    first = f"{skipped[0].path}: {skipped[0].reason}"
    if len(skipped) == 1:
        return f"1 file was skipped: {first}"
    return f"{len(skipped):,} files were skipped, the first is {first}"
