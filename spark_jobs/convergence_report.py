"""The convergence report: did the limit hold, was it shared fairly, how soon after each event.

Run as ``pulsar-quota report DIR --out DIR`` or with spark-submit. From the recorded tables of all
sidecars it makes ``figures.json``, Parquet files of all figures (``parquet/``) and ``index.html``.

Exit codes: 0 done; 1 the report is there, but files were skipped, tables or rows are missing, clocks
disagree or a ``--fail-on`` condition is missed; 2 wrong use, or input of which no report can be made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import enforcement, quality, timeline, trees
from spark_jobs import events as eventing
from spark_jobs import report_data as collecting
from spark_jobs.buckets import bucket_peaks
from spark_jobs.claims import writing
from spark_jobs.figures import DEFINITIONS, event_figures
from spark_jobs.pages import refuse_without
from spark_jobs.places import StorePlace, place_of
from spark_jobs.program import parser_of, run
from spark_jobs.progress import Progress
from spark_jobs.recording import Recording, open_recording, session_for
from spark_jobs.report_data import Peer, ReportData
from spark_jobs.session import AT_ONCE, computing
from spark_jobs.summary import headline, overall, text
from spark_jobs.targets import FigureBound, missed, parse

KEPT_TABLES, OF_TREES = 22, 2
"""That are written and read again; and further ones where there are trees."""
ONE_FILE = ("gaps", "events", "buckets", "trees")
"""Small ones of which Spark would write many files."""

PAGE, FIGURES, TEXT = "index.html", "figures.json", "summary.txt"
PARQUET, OVERALL = "parquet", "overall"
"""The directory of all tables, and the table of the worst of each figure."""
PEER = "peer"
"""The directory of the other limiter's tables."""

FIGURES_VERSION = 1
"""Version of the shape of figures.json."""

SKEW_MAX_S = 0.25
"""Clocks further apart than this move a notable part of a second's messages to another second."""
UNKNOWN_MAX = 0.05
"""With more than this part of the seconds unknown the figures are not those of the run."""


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """A report that was made: where it is, what it says on one screen, and how it ends."""

    out: StorePlace
    headline: str
    text: str
    warnings: tuple[str, ...]
    missed: tuple[str, ...]

    @property
    def figures(self) -> StorePlace:
        """The file with all figures."""
        return self.out / FIGURES

    @property
    def page(self) -> StorePlace:
        """The page."""
        return self.out / PAGE

    @property
    def exit_code(self) -> int:
        """0 when the figures may be relied on and meet every condition."""
        return 1 if self.warnings or self.missed else 0


Kept = Callable[[DataFrame, str], DataFrame]
"""Computes a frame once, under a name, for all that need it."""


def kept_at(place: StorePlace, *, with_trees: bool = False) -> Kept:
    """Keep frames as Parquet: each is written and read again.

    Spark plans a cached frame anew, with all that it was made of, in every query that it is part of. On
    110,000 rows that took more than a third of the processor time.
    """
    progress, steps = Progress("tables", KEPT_TABLES + with_trees * OF_TREES), count(1)

    def kept(frame: DataFrame, name: str) -> DataFrame:
        progress.reached(next(steps), name)
        path = (place / name).for_spark
        frame.write.mode("overwrite").parquet(path)
        return frame.sparkSession.read.schema(frame.schema).parquet(path)

    return kept


def frames(
    tables: Mapping[str, DataFrame], kept: Kept, *, with_trees: bool = False
) -> dict[str, DataFrame]:
    """Every figure of the recorded tables, by the name of its Parquet directory.

    Each is computed as soon as what it is made of is there, some at a time. The first that fails ends
    all: none is begun any more, and those that Spark is computing are interrupted.

    Args:
        tables: by name.
        kept: keeps a frame.
        with_trees: whether any tree of groups was recorded.
    """
    made: dict[str, Future[DataFrame]] = {}
    # They are begun in this order, and each waits only for earlier ones.
    pool = ThreadPoolExecutor(AT_ONCE)

    def keep(
        name: str, make: Callable[..., DataFrame], *inputs: DataFrame | Future[DataFrame]
    ) -> Future[DataFrame]:
        def computed() -> DataFrame:
            there = (each.result() if isinstance(each, Future) else each for each in inputs)
            frame = make(*there)
            return kept(frame.repartition(1) if name in ONE_FILE else frame, name)

        made[name] = pool.submit(computed)
        return made[name]

    reports, lifecycle, admitted = tables["reports"], tables["lifecycle"], tables["admitted"]
    try:
        limits = keep("limits", timeline.limits_over_time, tables["configuration"])
        parts = (keep("parts", trees.parts_in_force, tables["trees"]),) if with_trees else ()
        brokers = keep("broker_seconds", timeline.broker_seconds, admitted, limits, *parts)
        runs = keep("runs", eventing.runs, lifecycle, tables["membership"], reports)
        gaps = keep("gaps", eventing.gaps, lifecycle, runs)
        keep("clock_skew", quality.clock_skew, reports)
        keep("report_ages", quality.report_ages, reports)
        keep("control_bytes", quality.control_bytes, reports)
        keep("recorded", quality.recorded, lifecycle, gaps)
        keep("operations", quality.operations, tables["operations"])
        keep("enforcement", quality.enforcement, tables["enforcement"])
        keep("escaped", quality.escaped, tables["escaped"])
        if with_trees:
            keep("trees", trees.tree_totals, admitted, tables["trees"])
        spells = keep("spells", eventing.spells, brokers)
        certified = keep(
            "certified_seconds", _certified, brokers, gaps, spells, tables["certificates"]
        )
        groups = keep("group_seconds", timeline.judged_seconds, certified, brokers)
        unknown = keep("unknown_seconds", timeline.unknown_seconds, groups)
        signs = keep("signs", eventing.signs, brokers)
        periods = keep("periods", eventing.events, signs, spells, limits, runs)
        events = keep("events", event_figures, groups, brokers, unknown, periods)
        curves = keep("curves", collecting.curves, groups)
        keep("broker_curves", collecting.broker_curves, brokers, curves)
        keep("worst_seconds", collecting.worst_seconds, groups, events)
        keep("buckets", bucket_peaks, groups)
        for ended in wait(made.values(), return_when=FIRST_EXCEPTION).done:
            ended.result()
        return {name: each.result() for name, each in made.items()}
    except Exception:
        pool.shutdown(wait=False, cancel_futures=True)
        reports.sparkSession.interruptAll()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _certified(
    brokers: DataFrame, gaps: DataFrame, spells: DataFrame, certificates: DataFrame
) -> DataFrame:
    seconds = timeline.group_seconds(brokers, eventing.gap_edges(gaps, spells))
    return timeline.certified_seconds(seconds, certificates)


def warnings_of(recording: Recording, collected: ReportData) -> list[str]:
    """Why the figures might mislead."""
    found = [*recording.warnings]
    if recording.missing:
        found.append(
            f"no row of table {', '.join(recording.missing)}: figures made of it are missing"
        )
    dropped = sum(row["rows_dropped"] for row in collected.recorded)
    if dropped:
        found.append(f"{dropped:,} rows were dropped by recorders that could not write")
    widest = max((abs(row["skew_s"]) for row in collected.clock_skew), default=0.0)
    if widest > SKEW_MAX_S:
        found.append(f"the clocks of two brokers are {widest:.2f} s apart; seconds do not line up")
    known = sum(event["seconds_known"] or 0 for event in collected.events)
    unknown = sum(event["seconds_unknown"] or 0 for event in collected.events)
    if unknown > UNKNOWN_MAX * (known + unknown):
        found.append(f"{unknown:,} of {known + unknown:,} seconds were not wholly recorded")
    if not collected.events:
        found.append("no event: no limited group had a participant while something was recorded")
    if more := collected.left_out.get("events"):
        found.append(
            f"{more:,} more events are in parquet/events and are not held to conditions here"
        )
    return found


def broken_certificates(collected: ReportData) -> list[str]:
    """Promises that were not kept; they are missed whatever else was asked for."""
    broken = sum(event["certificates_broken"] or 0 for event in collected.events)
    return [f"{broken:,} seconds in which more was in force than a sidecar certified"] * bool(
        broken
    )


def make(
    recording: Recording,
    out: Path | StorePlace,
    *,
    conditions: Sequence[FigureBound] = (),
    peer: Recording | None = None,
) -> ReportOutcome:
    """Make the report of a recording.

    Args:
        recording: what the sidecars recorded.
        out: where the report goes.
        conditions: that every event must keep.
        peer: what was recorded of another limiter under the same load, to be shown beside.

    Raises:
        RefusedInput: no report can be made of it.
        OSError: the output cannot be written.
    """
    spark, failure = recording.spark, f"{recording.directory}: Spark could not compute the figures"
    with writing(spark, out) as (target, store):
        with computing(spark, failure):
            collected = _collected(recording, target / PARQUET)
            other = None if peer is None else _peer(peer, target / PEER)
            of_all = [(recording.cluster, overall(collected.events))]
            if other is not None:
                of_all.append((other.cluster, overall(other.collected.events)))
            _write_overall(spark, of_all, target / PARQUET / OVERALL)
        warnings = warnings_of(recording, collected)
        lacking = [*broken_certificates(collected), *missed(conditions, collected.events)]
        figures = {
            **_figures(recording, collected, warnings, conditions, lacking),
            **_of_peer(other),
        }
        store.put(target / FIGURES, (json.dumps(figures, indent=1) + "\n").encode())
        from spark_jobs.page import page  # noqa: PLC0415 - charts are loaded when they are drawn

        html = page(
            recording,
            collected,
            warnings=warnings,
            conditions=conditions,
            missed=lacking,
            peer=other,
        )
        shown = text(recording.cluster, collected, warnings, lacking)
        store.put(target / TEXT, f"{shown}\n".encode())
        store.put(target / PAGE, html.encode())  # last: who sees the page may rely on the rest
    return ReportOutcome(
        out=target,
        headline=headline(collected.events),
        text=shown,
        warnings=tuple(warnings),
        missed=tuple(lacking),
    )


def _collected(recording: Recording, place: StorePlace) -> ReportData:
    with_trees = bool(recording.rows.get("trees"))
    kept = kept_at(place, with_trees=with_trees)
    return collecting.collect(frames(recording.tables, kept, with_trees=with_trees))


def _peer(recording: Recording, place: StorePlace) -> Peer:
    collected = _collected(recording, place)
    return Peer(recording.cluster, collected, warnings_of(recording, collected))


def _write_overall(
    spark: SparkSession,
    of_all: Sequence[tuple[str, Mapping[str, float | int | None]]],
    place: StorePlace,
) -> None:
    """Write the worst of each figure over all events, a row for each cluster."""
    figures = [(name, pa.float64()) for name in of_all[0][1]]
    rows = [{"cluster": cluster, **worst} for cluster, worst in of_all]
    table = pa.Table.from_pylist(rows, pa.schema([("cluster", pa.string()), *figures]))
    spark.createDataFrame(table).coalesce(1).write.mode("overwrite").parquet(place.for_spark)


def _of_peer(peer: Peer | None) -> Mapping[str, object]:
    if peer is None:
        return {}
    events = peer.collected.events
    return {
        "peer": {
            "cluster": peer.cluster,
            "headline": headline(events),
            "overall": overall(events),
            "events": events,
            "warnings": peer.warnings,
        }
    }


def produce(
    directory: Path | StorePlace | str,
    out: Path | StorePlace | str,
    *,
    cluster: str | None = None,
    fail_on: str = "",
    cores: int = 2,
    peer: Path | StorePlace | str | None = None,
    skip_unreadable: bool = False,
) -> ReportOutcome:
    """Make the report with a session of its own size.

    Raises:
        RefusedInput: ``fail_on`` cannot be understood, or no report can be made of the directory, or by
            this Python.
        OSError: the output cannot be written.
    """
    conditions = parse(fail_on)
    refuse_without("jinja2", "matplotlib")
    place, target = place_of(directory), place_of(out)
    others = () if peer is None else (place_of(peer),)
    spark = session_for("pulsar-quota report", cores, place, *others)
    recording = open_recording(spark, place, cluster, skip_unreadable=skip_unreadable)
    beside = [open_recording(spark, other, skip_unreadable=skip_unreadable) for other in others]
    return make(recording, target, conditions=conditions, peer=beside[0] if beside else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = parser_of("convergence_report", __doc__, "where the report goes")
    parser.add_argument("--fail-on", default="", help="for example settle_s<=2,jain>=0.999")
    parser.add_argument("--peer", help="another limiter's recording, shown beside")
    return run(parser, arguments, produce, lambda made: f"{made.text}\n{made.page}")


def _figures(
    recording: Recording,
    collected: ReportData,
    warnings: Sequence[str],
    conditions: Sequence[FigureBound],
    lacking: Sequence[str],
) -> Mapping[str, object]:
    return {
        "version": FIGURES_VERSION,
        "cluster": recording.cluster,
        "headline": headline(collected.events),
        "overall": overall(collected.events),
        "events": collected.events,
        "events_left_out": collected.left_out.get("events", 0),
        "worst_seconds": collected.worst_seconds,
        "buckets": collected.buckets,
        "operations": collected.operations,
        "enforcement": {
            "brokers": collected.enforcement,
            "text": enforcement.sentences(collected.enforcement),
        },
        "round_the_gates": collected.escaped,
        "trees": collected.trees,
        "quality": {
            "recorded": collected.recorded,
            "gaps": collected.gaps,
            "clock_skew": collected.clock_skew,
            "report_ages": collected.report_ages,
            "control_bytes": collected.control_bytes,
        },
        "input": {
            "rows": recording.rows,
            "left_out": list(recording.left_out),
            "missing_tables": list(recording.missing),
        },
        "warnings": list(warnings),
        "fail_on": [str(condition) for condition in conditions],
        "missed": list(lacking),
        "definitions": dict(DEFINITIONS),
    }


if __name__ == "__main__":
    sys.exit(main())
