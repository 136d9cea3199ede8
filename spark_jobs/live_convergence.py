"""Convergence while it happens: a stream over the folder that sidecars record to.

Run as ``pulsar-quota live DIR --out DIR`` or with spark-submit. As soon as nothing more is expected of a
second, its row for every group goes to ``seconds/batch=N``: limit, admitted, demand, how far the furthest
broker is from its share, computed as in the convergence report (timeline.py). What a report says of a
second later is the same, except that gaps are not known yet: they show when a sidecar's later rows do.

*Event time.* Sidecars' files land when they are full or a minute old, in any order. A second is final
when rows that are ``late_s`` later have been seen; what comes after that is left out, and the report has
it. *Exactly once.* Rows are told apart by sidecar, second, group and dimension, so a file that is copied
or merged with others (compaction) counts once. A batch writes its own directory whole; where the job is
killed it goes on from its checkpoint, and writes the directory of the batch under way again.
*What cannot be believed.* A file whose name begins with a dot or an underscore is not looked at; one of
another cluster gives no row. One that the report would skip (truncated, foreign, of another version or
table) ends the stream, which names it and writes nothing of the batch; once it is mended or taken away,
the stream goes on where it was (landing.py).

Exit codes: 0 stopped, or nothing was left to do; 2 wrong use, or a file that cannot be believed.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from spark_jobs.intake import examine, nothing
from spark_jobs.landing import Landing
from spark_jobs.places import StorePlace, place_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.session import computing, session, session_for
from spark_jobs.stores import output_store
from spark_jobs.summary import moment, unit_of
from spark_jobs.tables import REQUIRED, SCHEMAS
from spark_jobs.timeline import broker_seconds, group_seconds, limits_over_time

LATE_S = 150
"""Files are a minute old when they land, and a recorder that fails tries again for a while."""
EVERY_S = 5
FILES_PER_BATCH = 1_000
"""A folder that was recorded to for long is caught up with in batches of bounded size."""
_LINES_MAX = 20

_ROW = ["broker", "run", "resource_group", "dimension"]
"""With the second: what tells rows apart."""


@dataclass(frozen=True, slots=True)
class Live:
    """The places that a stream reads and writes.

    Args:
        directory: what the sidecars record to.
        out: where rows and the checkpoint go.
        cluster: whose rows.
        late_s: how much later than its neighbours a row may land.
        every_s: how often it is looked for new files.
    """

    directory: Path | StorePlace
    out: Path | StorePlace
    cluster: str
    late_s: int = LATE_S
    every_s: int = EVERY_S

    def start(
        self, spark: SparkSession, told: Callable[[str], None], *, once: bool = False
    ) -> StreamingQuery:
        """Start the stream; it goes on for ever, or until all that is there is done.

        Args:
            spark: the session.
            told: gets a line for every group of a batch.
            once: stop when there is nothing left.
        """
        landing = Landing(self.directory, REQUIRED, spark)
        output_store(place_of(self.out), spark)

        def write(rows: DataFrame, number: int) -> None:
            landing.look()  # the batch's files have landed, and none of their rows was read yet
            self._write(rows, number, told)

        writer = (
            final_rows(self._arriving(spark), self.late_s)
            .writeStream.queryName("live convergence")
            .outputMode("append")
            .option("checkpointLocation", (place_of(self.out) / "checkpoint").for_spark)
            .foreachBatch(write)
        )
        if once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self.every_s} seconds").start()

    def _arriving(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema(SCHEMAS["admitted"])
        return self._files(reader.option("maxFilesPerTrigger", FILES_PER_BATCH), "admitted")

    def _files(self, reader: DataFrameReader | DataStreamReader, table: str) -> DataFrame:
        finished = reader.option("recursiveFileLookup", "true").option(
            "pathGlobFilter", "*.parquet"
        )
        rows = finished.parquet((place_of(self.directory) / f"table={table}").for_spark)
        return rows.where(F.col("cluster") == self.cluster)

    def _write(self, rows: DataFrame, number: int, told: Callable[[str], None]) -> None:
        spark = rows.sparkSession
        configuration = self._files(spark.read.schema(SCHEMAS["configuration"]), "configuration")
        limits = limits_over_time(configuration).persist()
        no_gaps = nothing(spark, "resource_group string, second bigint")
        seconds = group_seconds(broker_seconds(rows, limits), no_gaps).drop("central").persist()
        try:
            seconds.coalesce(1).write.mode("overwrite").parquet(
                (place_of(self.out) / "seconds" / f"batch={number}").for_spark
            )
            for line in _lines(seconds):
                told(line)
        finally:
            seconds.unpersist()
            limits.unpersist()


def final_rows(arriving: DataFrame, late_s: int) -> DataFrame:
    """A stream of recorded rows as a stream of such rows of which nothing more is expected.

    All rows of a second come in the same batch: they become final together.

    Args:
        arriving: the table ``admitted``, as its files land.
        late_s: how much later than its neighbours a row may land.
    """
    others = [name for name in arriving.columns if name not in (*_ROW, "second")]
    of_second = arriving.withWatermark("second", f"{late_s} seconds").groupBy(
        F.window("second", "1 second"), *_ROW
    )
    once = of_second.agg(*(F.first(name).alias(name) for name in others))
    return once.select(*_ROW, F.col("window.start").alias("second"), *others)


def produce(
    directory: Path | StorePlace | str,
    out: Path | StorePlace | str,
    told: Callable[[str], None],
    *,
    cluster: str | None = None,
    late_s: int = LATE_S,
    every_s: int = EVERY_S,
    once: bool = False,
    cores: int = 2,
) -> None:
    """Stream with a session of its own until it is stopped, or all that is there is done.

    Raises:
        RefusedInput: nothing can be made of the directory, or the stream failed.
    """
    name, place, target = "pulsar-quota live", place_of(directory), place_of(out)
    started = session_for(name, cores, place, target)
    intake = examine(place, cluster, spark=started)
    spark = session(name, cores, quick=True, endless=True)
    live = Live(place, target, intake.cluster, late_s, every_s)
    with computing(spark, f"{directory}: the stream failed"):
        query = live.start(spark, told, once=once)
        signal.signal(signal.SIGTERM, lambda *_: query.stop())
        with contextlib.suppress(KeyboardInterrupt):
            query.awaitTermination()
        query.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = argparse.ArgumentParser(prog="live_convergence", description=__doc__)
    parser.add_argument("directory", help="what the sidecars record to")
    parser.add_argument("--out", required=True, help="where rows and checkpoint go")
    parser.add_argument("--cluster", help="this cluster's rows only")
    parser.add_argument("--late", type=int, default=LATE_S, help="seconds that a row may be late")
    parser.add_argument("--every", type=int, default=EVERY_S, help="seconds between two looks")
    parser.add_argument("--once", action="store_true", help="stop when nothing is left to do")
    options = parser.parse_args(arguments)
    try:
        produce(
            options.directory, options.out, _print,
            cluster=options.cluster, late_s=options.late, every_s=options.every, once=options.once,
        )  # fmt: skip
    except RefusedInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _lines(seconds: DataFrame) -> list[str]:
    """Describe every group in its last second of a batch; at most a screen of them."""
    last = seconds.groupBy("resource_group", "dimension").agg(
        F.max_by(F.struct("second", "admitted", "limit", "off", "furthest", "worst"), "second")
        .alias("last")
    )  # fmt: skip
    rows = last.orderBy("resource_group", "dimension").limit(_LINES_MAX).collect()
    return [_line(row["resource_group"], row["dimension"], row["last"].asDict()) for row in rows]


def _line(group: str, dimension: str, last: dict[str, object]) -> str:
    settled = "settled"
    if last["off"]:
        settled = f"{last['furthest']} is off its share by {last['worst']:.0%} of C/N"
    second = last["second"]
    assert isinstance(second, int)
    passed = f"{last['admitted']:,} of {last['limit']:,} {unit_of(dimension)}"
    return f"{moment(second)} {group}: {passed}, {settled}"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
