"""The convergence report: did the limit hold, was it shared fairly, how soon after each event.

Run as ``pulsar-quota report DIR --out DIR`` or with spark-submit. From the recorded tables of all
sidecars it makes ``figures.json``, Parquet files of all figures (``parquet/``) and ``index.html``.

Exit codes: 0 done; 1 the report is there, but files were skipped, tables or rows are missing, clocks
disagree or a ``--fail-on`` condition is missed; 2 wrong use, or input of which no report can be made.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs import enforcement, quality, timeline, trees
from spark_jobs import events as eventing
from spark_jobs import report_data as collecting
from spark_jobs.buckets import bucket_peaks
from spark_jobs.claims import writing
from spark_jobs.figures import DEFINITIONS, event_figures
from spark_jobs.page import page
from spark_jobs.places import StorePlace, place_of
from spark_jobs.program import exit_code_of
from spark_jobs.progress import Progress
from spark_jobs.recording import SKIP_UNREADABLE, Recording, open_recording, session_for
from spark_jobs.report_data import Peer, ReportData
from spark_jobs.session import computing
from spark_jobs.summary import headline, overall, text
from spark_jobs.targets import FigureBound, missed, parse

KEPT_TABLES, _OF_TREES = 12, 2
"""That are written and read again, one after the other; and further ones where there are trees."""

WRITTEN_LAST = ("clock_skew", "report_ages", "control_bytes", "recorded", "operations")
"""Tables that no other figure needs."""

PAGE, FIGURES, TEXT = "index.html", "figures.json", "summary.txt"

FIGURES_VERSION = 1
"""Version of the shape of figures.json."""

SKEW_MAX_S = 0.25
"""Clocks further apart than this move a notable part of a second's messages to another second."""
UNKNOWN_MAX = 0.05
"""With more than this part of the seconds unknown the figures are not those of the run."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Every figure as a frame; the names are those of the Parquet directories. None: there is no tree."""

    events: DataFrame
    group_seconds: DataFrame
    clock_skew: DataFrame
    report_ages: DataFrame
    control_bytes: DataFrame
    recorded: DataFrame
    gaps: DataFrame
    operations: DataFrame
    enforcement: DataFrame
    escaped: DataFrame
    buckets: DataFrame
    broker_seconds: DataFrame
    trees: DataFrame | None


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
    progress, steps = Progress("tables", KEPT_TABLES + with_trees * _OF_TREES), count(1)

    def kept(frame: DataFrame, name: str) -> DataFrame:
        progress.reached(next(steps), name)
        path = (place / name).for_spark
        frame.write.mode("overwrite").parquet(path)
        return frame.sparkSession.read.schema(frame.schema).parquet(path)

    return kept


def frames(tables: Mapping[str, DataFrame], kept: Kept, *, with_trees: bool = False) -> Frames:
    """Every figure of the recorded tables.

    Args:
        tables: by name.
        kept: keeps what several figures need.
        with_trees: whether any tree of groups was recorded.
    """
    limits = kept(timeline.limits_over_time(tables["configuration"]), "limits")
    parts = kept(trees.parts_in_force(tables["trees"]), "parts") if with_trees else None
    brokers = kept(timeline.broker_seconds(tables["admitted"], limits, parts), "broker_seconds")
    runs = kept(eventing.runs(tables["lifecycle"], tables["membership"], tables["reports"]), "runs")
    gaps = kept(eventing.gaps(tables["lifecycle"], runs).repartition(1), "gaps")
    spells = kept(eventing.spells(brokers), "spells")
    seconds = timeline.group_seconds(brokers, eventing.gap_edges(gaps, spells))
    certified = timeline.certified_seconds(seconds, tables["certificates"])
    certified = kept(certified, "certified_seconds")
    groups = kept(timeline.judged_seconds(certified, brokers), "group_seconds")
    unknown = kept(timeline.unknown_seconds(groups), "unknown_seconds")
    signs = kept(eventing.signs(brokers), "signs")
    periods = kept(eventing.events(signs, spells, limits, runs), "periods")
    figures = event_figures(groups, brokers, unknown, periods).repartition(1)
    return Frames(
        events=kept(figures, "events"),
        group_seconds=groups,
        clock_skew=quality.clock_skew(tables["reports"]),
        report_ages=quality.report_ages(tables["reports"]),
        control_bytes=quality.control_bytes(tables["reports"]),
        recorded=quality.recorded(tables["lifecycle"], gaps),
        gaps=gaps,
        operations=quality.operations(tables["operations"]),
        enforcement=quality.enforcement(tables["enforcement"]),
        escaped=quality.escaped(tables["escaped"]),
        buckets=kept(bucket_peaks(groups).repartition(1), "buckets"),
        broker_seconds=brokers,
        trees=kept(_of_trees(tables), "trees") if with_trees else None,
    )


def _of_trees(tables: Mapping[str, DataFrame]) -> DataFrame:
    return trees.tree_totals(tables["admitted"], tables["trees"]).repartition(1)


def collect(made: Frames) -> ReportData:
    """The bounded part that one page shows."""
    ordered = made.events.orderBy("resource_group", "dimension", "event")
    events = collecting.rows(ordered, collecting.EVENTS_MAX)
    curves, groups_left_out = collecting.curves(made.group_seconds, made.broker_seconds)
    pairs = collecting.PAIRS_MAX
    return ReportData(
        events=events,
        events_left_out=made.events.count() - len(events),
        curves=curves,
        groups_left_out=groups_left_out,
        worst=collecting.worst_seconds(made.group_seconds, made.events),
        skew=collecting.rows(made.clock_skew.orderBy("a", "b"), pairs),
        ages=collecting.rows(made.report_ages.orderBy("receiver", "sender"), pairs),
        control=collecting.rows(made.control_bytes.orderBy("broker"), pairs),
        recorded=collecting.rows(made.recorded.orderBy("broker"), pairs),
        gaps=collecting.rows(made.gaps.orderBy("from_second", "broker"), pairs),
        operations=collecting.rows(made.operations.orderBy("accepted", "operation"), pairs),
        enforcement=collecting.rows(made.enforcement.orderBy("broker", "path"), pairs),
        escaped=collecting.rows(
            made.escaped.orderBy(F.desc("bytes"), "namespace", "monitoring_class"), pairs
        ),
        buckets=collecting.rows(
            made.buckets.orderBy("resource_group", "dimension", "length_s"), pairs
        ),
        trees=[]
        if made.trees is None
        else collecting.rows(
            made.trees.where("limit is not null").orderBy(
                "dimension", "root", "level", "resource_group"
            ),
            pairs,
        ),
    )


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
    widest = max((abs(row["skew_s"]) for row in collected.skew), default=0.0)
    if widest > SKEW_MAX_S:
        found.append(f"the clocks of two brokers are {widest:.2f} s apart; seconds do not line up")
    known = sum(event["seconds_known"] or 0 for event in collected.events)
    unknown = sum(event["seconds_unknown"] or 0 for event in collected.events)
    if unknown > UNKNOWN_MAX * (known + unknown):
        found.append(f"{unknown:,} of {known + unknown:,} seconds were not wholly recorded")
    if not collected.events:
        found.append("no event: no limited group had a participant while something was recorded")
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
            place = target / "parquet"
            made = _made(recording, place)
            collected = collect(made)
            _write_parquet(made, place)
            other = None if peer is None else _peer(peer, target / "peer")
        warnings = warnings_of(recording, collected)
        lacking = [*broken_certificates(collected), *missed(conditions, collected.events)]
        figures = {
            **_figures(recording, collected, warnings, conditions, lacking),
            **_of_peer(other),
        }
        store.put(target / FIGURES, (json.dumps(figures, indent=1) + "\n").encode())
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


def _made(recording: Recording, place: StorePlace) -> Frames:
    with_trees = bool(recording.rows.get("trees"))
    return frames(recording.tables, kept_at(place, with_trees=with_trees), with_trees=with_trees)


def _peer(recording: Recording, place: StorePlace) -> Peer:
    collected = collect(_made(recording, place))
    return Peer(recording.cluster, collected, warnings_of(recording, collected))


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
        BadCondition: ``fail_on`` cannot be understood.
        RefusedInput: no report can be made of the directory.
        OSError: the output cannot be written.
    """
    conditions = parse(fail_on)
    place, target = place_of(directory), place_of(out)
    others = () if peer is None else (place_of(peer),)
    spark = session_for("pulsar-quota report", cores, place, *others)
    recording = open_recording(spark, place, cluster, skip_unreadable=skip_unreadable)
    beside = [open_recording(spark, other, skip_unreadable=skip_unreadable) for other in others]
    return make(recording, target, conditions=conditions, peer=beside[0] if beside else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = argparse.ArgumentParser(prog="convergence_report", description=__doc__)
    parser.add_argument("directory", help="what the sidecars recorded")
    parser.add_argument("--out", required=True, help="where the report goes")
    parser.add_argument("--cluster", help="report on this cluster's files only")
    parser.add_argument("--fail-on", default="", help="for example settle_s<=2,jain>=0.999")
    parser.add_argument("--peer", help="another limiter's recording, shown beside")
    parser.add_argument("--skip-unreadable", action="store_true", help=SKIP_UNREADABLE)
    options = parser.parse_args(arguments)

    def work() -> tuple[str, int]:
        outcome = produce(
            options.directory, options.out,
            cluster=options.cluster, fail_on=options.fail_on, peer=options.peer,
            skip_unreadable=options.skip_unreadable,
        )  # fmt: skip
        return f"{outcome.text}\n{outcome.page}", outcome.exit_code

    return exit_code_of(work, options.out)


def _write_parquet(made: Frames, directory: StorePlace) -> None:
    """Write the tables that are not there yet; a handful of rows is one file."""
    for name in WRITTEN_LAST:
        frame: DataFrame = getattr(made, name)
        frame.coalesce(1).write.mode("overwrite").parquet((directory / name).for_spark)


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
        "events_left_out": collected.events_left_out,
        "worst_seconds": collected.worst,
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
            "clock_skew": collected.skew,
            "report_ages": collected.ages,
            "control_bytes": collected.control,
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
