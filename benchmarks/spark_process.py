"""``python -m benchmarks.spark_process report|spark|duckdb DIR``: one contender, on its own.

``report`` is the whole convergence report as ``pulsar-quota report`` makes it. ``spark`` and ``duckdb``
both compute what is the greater part of it and nothing else: demand, exact shares and distances from
them, second by second. They print what they found, so that the two can be held against each other.

No thread runs on further cores than two, of Java's own neither.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

CORES = 2
GIGABYTE = "1GB"
"""Of memory for DuckDB, as Spark's JVM has; the rest goes to disk."""

_DUCKDB = """
with limits as (
    select resource_group, 'publishRateInMsgs' as dimension, any_value(publish_messages) as c
    from read_parquet('{place}/table=configuration/*/*/*.parquet') group by 1
), brokers as (
    select resource_group, dimension, epoch(second)::bigint as s, broker, any_value(c) as c,
        sum(admitted) as u, least(sum(held_us) / sum(observed_us), 1.0) as held,
        arg_max(local_limit, ts) as q
    from read_parquet('{place}/table=admitted/*/*/*.parquet')
        join limits using (resource_group, dimension)
    group by 1, 2, 3, 4
), demands as (
    select *, least(c, case when held >= 0.9 then c when held >= 0.1 then u * (1 + held) else u end) as d
    from brokers
), levels as (
    select *, count(*) over w as n, (c - coalesce(sum(d) over (w order by d, broker
        rows between unbounded preceding and 1 preceding), 0))
        / (count(*) over w - row_number() over (w order by d, broker) + 1) as level
    from demands window w as (partition by resource_group, dimension, s)
), shares as (
    select *, least(d, max(level) over (partition by resource_group, dimension, s)) as fair from levels
), seconds as (
    select resource_group, dimension, s, max(c) as c, sum(u) as a, sum(fair) as fair, sum(q) as q,
        max(abs(u - fair)) / (max(c) / max(n)) as worst
    from shares group by 1, 2, 3
)
select count(*), sum(a)::bigint, sum(fair), sum((worst > 0.05)::int)::bigint from seconds
"""


def main() -> int:
    """Compute, and print a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_process")
    parser.add_argument("what", choices=("report", "spark", "duckdb"))
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    directory: Path = options.directory
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    contender = {"report": _report, "spark": _spark, "duckdb": _duckdb}[options.what]
    sys.stdout.write(json.dumps(contender(directory)) + "\n")
    return 0


def _report(directory: Path) -> list[float]:
    from spark_jobs.convergence_report import produce  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as out:
        outcome = produce(directory, Path(out), cores=CORES)
        figures = json.loads(outcome.figures.path.read_text())
        return [len(figures["events"]) + figures["events_left_out"]]


def _spark(directory: Path) -> list[float]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - what Spark's users call it

    from spark_jobs.recording import open_recording  # noqa: PLC0415
    from spark_jobs.session import session  # noqa: PLC0415
    from spark_jobs.timeline import broker_seconds, limits_over_time  # noqa: PLC0415

    recording = open_recording(session("bench", CORES), directory)
    limits = limits_over_time(recording.tables["configuration"])
    brokers = broker_seconds(recording.tables["admitted"], limits)
    seconds = brokers.groupBy("resource_group", "dimension", "second").agg(
        F.sum("admitted").alias("a"),
        F.sum("fair").alias("fair"),
        (
            F.max(F.abs(F.col("admitted") - F.col("fair")))
            / (F.max("limit") / F.max("brokers"))
        ).alias("worst"),
    )  # fmt: skip
    (row,) = seconds.agg(
        F.count("*"), F.sum("a"), F.sum("fair"), F.count_if(F.col("worst") > 0.05)
    ).collect()
    return list(row)


def _duckdb(directory: Path) -> list[float]:
    import duckdb  # noqa: PLC0415 - of the extra `bench` only

    with tempfile.TemporaryDirectory() as spill:
        connection = duckdb.connect(
            config={"threads": CORES, "memory_limit": GIGABYTE, "temp_directory": spill}
        )
        row = connection.execute(_DUCKDB.format(place=directory)).fetchone()
    assert row is not None
    return list(row)


if __name__ == "__main__":
    sys.exit(main())
