"""What if: the recorded demand under other limits, laws, weights, policies or intervals.

Run as ``pulsar-quota what-if DIR --set GROUP.SETTING=VALUE`` or with spark-submit, before anyone applies
the change. Each group's demand, second by second and broker by broker, is played again by the real core
(coordinator/simulation/replay.py, which also says what a recording cannot tell), once as it was and once
with the change; groups are spread over Spark's executors, the groups of a tree together. Three columns
come of it: what was *recorded*; what the replay makes of the settings as they were (*replayed*: how far
that is from the recording is how far the answer can be trusted); and the same with the change
(*changed*).

Exit codes: 0 done; 1 the answer is there, but the replay differs from the recording by more than
``TRUSTED_WITHIN``, a limit is taken away, or files were skipped; 2 wrong use, or input of which nothing
can be said.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.core.model import Dimension
from coordinator.core.transfer.tree_rules import TreeFault
from coordinator.simulation.replay import (
    Change,
    ReplayFigures,
    ReplayInput,
    recorded,
    replay_together,
)
from coordinator.simulation.tree_replay import TreePlace, planted
from spark_jobs.changes import parse
from spark_jobs.claims import writing
from spark_jobs.places import StorePlace, place_of
from spark_jobs.program import parser_of, run
from spark_jobs.recording import ReadOptions, Recording, recording_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.replay_input import KEY, definitions, demand, story_of, tree_places
from spark_jobs.session import computing

ANSWER = "answer"
"""The directory of the Parquet files; Spark deletes what else is in it."""
SECONDS = 3_600
"""The part of each group or tree that is played unless told otherwise: its last hour. A second of a
broker takes about a millisecond of processor time."""
SECONDS_MIN = 10
"""In fewer a change does not settle."""
INTERVAL_S = (0.1, 300.0)
"""The least and the most of another report interval."""
ROWS_MAX = 10_000
"""Of the answer that are shown; the Parquet file has all of them."""
TRUSTED_WITHIN = 0.05
"""Of what was admitted: how far the replay of the settings as they were may be off."""

_ANSWER = """resource_group string, dimension string, variant string, broker string, admitted double,
    peak_overshoot double, utilisation double, jain double, min_share double, scarce double"""


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """An answer that was found: its rows by group, dimension and variant, and how it ends."""

    rows: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when the answer may be relied on."""
        return 1 if self.warnings else 0


def answers(
    recording: Recording,
    changes: Mapping[str, Change],
    *,
    places: Mapping[str, TreePlace],
    round_seconds: float | None = None,
    seconds: int = SECONDS,
) -> DataFrame:
    """Play every group that is to be changed; all of them when only the interval is.

    Columns: resource_group, dimension, variant (recorded, replayed, changed), broker (null is all of them
    together), admitted per second, and for all together the figures of replay.Figures.
    """
    groups = sorted(_kin(changes, places)) if changes else None
    tree = F.coalesce(_root(places), F.col("resource_group"))
    stories = demand(recording.tables["admitted"], groups, seconds, tree)
    told = definitions(recording.tables["configuration"])
    play = _player(dict(changes), round_seconds, places)
    key = (tree.alias("tree"), KEY[1])
    return stories.groupBy(*key).cogroup(told.groupBy(*key)).applyInPandas(play, _ANSWER)


def _kin(names: Iterable[str], places: Mapping[str, TreePlace]) -> set[str]:
    """These groups, and all that share a limit with one of them in a tree."""
    roots = {places[name].root for name in names if name in places}
    return {*names, *(name for name, place in places.items() if place.root in roots)}


def _root(places: Mapping[str, TreePlace]) -> Column:
    """The root of a group's tree; null outside trees."""
    if not places:
        return F.lit(None).cast("string")
    pairs = (F.lit(text) for name, place in places.items() for text in (name, place.root))
    return F.try_element_at(F.create_map(*pairs), F.col("resource_group"))


def ask(
    recording: Recording,
    changes: Mapping[str, Change],
    *,
    round_seconds: float | None = None,
    seconds: int = SECONDS,
    out: Path | StorePlace | str | None = None,
) -> WhatIfOutcome:
    """Ask what if, of a recording.

    Args:
        recording: what the sidecars recorded.
        changes: by group.
        round_seconds: another report interval for every sidecar.
        seconds: how many of each group or tree, its last ones.
        out: where all rows go as Parquet, in the directory `ANSWER`, when anywhere.

    Raises:
        RefusedInput: nothing can be said of it.
        OSError: the output cannot be written.
    """
    spark = recording.spark
    with computing(spark, f"{recording.directory}: Spark could not play it again"):
        places = tree_places(recording)
        found = answers(
            recording, changes, places=places, round_seconds=round_seconds, seconds=seconds
        ).persist()
        if out is not None:
            with writing(spark, out) as (target, _):
                found.write.mode("overwrite").parquet((target / ANSWER).for_spark)
        ordered = found.orderBy("resource_group", "dimension", "broker", "variant")
        rows = tuple(row.asDict() for row in ordered.limit(ROWS_MAX).collect())
        named = found.select("resource_group").distinct().collect()
        played = _kin({row["resource_group"] for row in named}, places)
    missing = sorted(set(changes) - played)
    if missing or not rows:
        names = ", ".join(missing) or "any group"
        raise RefusedInput(f"{recording.directory}: nothing was recorded that limits {names}")
    return WhatIfOutcome(rows, (*recording.warnings, *_warnings(rows)))


def text(outcome: WhatIfOutcome) -> str:
    """The answer as a table for a terminal."""
    return "\n".join(
        (
            *_totals(outcome.rows),
            "",
            "admitted/s by broker, as it was and with the change:",
            *_gains(outcome.rows),
            *(f"warning: {warning}" for warning in outcome.warnings),
        )
    )


def produce(
    directory: Path | StorePlace | str,
    settings: Sequence[str],
    *,
    interval: float | None = None,
    seconds: int = SECONDS,
    out: Path | StorePlace | str | None = None,
    **reading: Unpack[ReadOptions],
) -> WhatIfOutcome:
    """Ask what if with a session of its own.

    Raises:
        RefusedInput: a setting, the interval or the seconds make no sense, nothing is to be changed, or
            nothing can be said of the directory.
        OSError: the output cannot be written.
    """
    changes = parse(settings)
    if not changes and interval is None:
        raise RefusedInput("nothing is to be changed: name a setting or an interval")
    least, most = INTERVAL_S
    if interval is not None and not least <= interval <= most:
        raise RefusedInput(
            f"{interval:g}: write an interval of {INTERVAL_S[0]} to {INTERVAL_S[1]:g} seconds"
        )
    if seconds < SECONDS_MIN:
        raise RefusedInput(f"{seconds}: play {SECONDS_MIN} seconds or more")
    target = None if out is None else place_of(out)
    recording = recording_of("pulsar-quota what-if", directory, **reading)
    return ask(recording, changes, round_seconds=interval, seconds=seconds, out=target)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = parser_of("what_if", __doc__, "where all rows go, as Parquet", out_required=False)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--interval", type=float, help="another report interval, in seconds")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="how much of each group")
    return run(parser, arguments, produce, text, as_json)


def as_json(outcome: WhatIfOutcome) -> str:
    """The answer for machines."""
    return json.dumps({"rows": outcome.rows, "warnings": outcome.warnings}, indent=1)


def _player(
    changes: Mapping[str, Change], round_seconds: float | None, places: Mapping[str, TreePlace]
) -> Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]:
    """Return the work of an executor on one group, or one tree, with the changes in it."""

    def play(rows: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
        stories = _stories(rows, told, places)
        if not any(story.brokers for story in stories.values()):
            return pd.DataFrame()
        if stories.keys() & places.keys():
            before, after = _trees(stories, places, changes)
        else:
            before = stories
            after = {name: changes.get(name, Change()).to(each) for name, each in stories.items()}
        variants = {
            "recorded": {name: recorded(story) for name, story in before.items() if story.brokers},
            "replayed": replay_together(list(before.values())),
            "changed": replay_together(list(after.values()), round_seconds=round_seconds or 1.0),
        }
        return pd.DataFrame(
            row
            for variant, by_group in variants.items()
            for group, by_dimension in by_group.items()
            for dimension, figures in by_dimension.items()
            for row in _rows(group, dimension, variant, figures)
        )

    return play


def _stories(
    rows: pd.DataFrame, told: pd.DataFrame, places: Mapping[str, TreePlace]
) -> dict[str, ReplayInput]:
    """The stories of a group, or of all groups of a tree, by name."""
    if rows.empty:
        return {}
    span = int(rows["second"].min()), int(rows["second"].max())
    rows_of, no_rows = dict(iter(rows.groupby("resource_group"))), rows.iloc[:0]
    by_group = {
        name: story_of(rows_of.get(name, no_rows), of_group, span if name in places else None)
        for name, of_group in told.groupby("resource_group", sort=True)
    }
    return {str(name): story for name, story in by_group.items() if story is not None}


def _trees(
    stories: Mapping[str, ReplayInput],
    places: Mapping[str, TreePlace],
    changes: Mapping[str, Change],
) -> tuple[dict[str, ReplayInput], dict[str, ReplayInput]]:
    """The stories of a tree as it was, and with the changes."""
    try:
        return planted(stories, places, {}), planted(stories, places, changes)
    except TreeFault as error:
        raise RefusedInput(f"--set: {error}") from error


def _rows(
    group: str, dimension: Dimension, variant: str, figures: ReplayFigures
) -> Iterator[tuple[object, ...]]:
    head = (group, dimension.value, variant)
    yield (
        *head, None, figures.admitted, figures.peak_overshoot, figures.utilisation, figures.jain,
        figures.min_share, figures.scarce,
    )  # fmt: skip
    for broker, admitted in figures.by_broker.items():
        yield (*head, broker, admitted, *(None,) * 5)


def _warnings(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(rows) == ROWS_MAX:
        yield f"only the first {ROWS_MAX:,} rows are shown"
    totals = {
        (row["resource_group"], row["dimension"], row["variant"]): row["admitted"]
        for row in rows
        if row["broker"] is None
    }
    for (group, dimension, variant), admitted in totals.items():
        was = totals.get((group, dimension, "recorded"), 0.0)
        if variant == "replayed" and abs(admitted - was) > TRUSTED_WITHIN * was:
            yield (
                f"{group} {dimension}: played again as it was, {admitted:,.0f}/s pass where"
                f" {was:,.0f}/s were recorded; do not rely on what the change would do"
            )
        if variant == "replayed" and (group, dimension, "changed") not in totals:
            yield (
                f"{group} {dimension}: without a limit all that is wanted passes, and a recording does"
                " not tell what clients that waited wanted"
            )


def _totals(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = ("admitted/s", "peak", "used", "jain", "min share", "scarce")
    yield f"{'group':<16} {'dimension':<20} {'':<9}" + "".join(f"{name:>11}" for name in names)
    for row in rows:
        if row["broker"] is None:
            figures = (
                f"{row['admitted']:,.0f}",
                f"{row['peak_overshoot']:+.1%}",
                f"{row['utilisation']:.1%}",
                f"{row['jain']:.3f}",
                f"{row['min_share']:.3f}",
                f"{row['scarce']:.0%}",
            )
            head = f"{row['resource_group']:<16} {row['dimension']:<20} {row['variant']:<9}"
            yield head + "".join(f"{figure:>11}" for figure in figures)


def _gains(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    by_broker: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows:
        if row["broker"] is not None:
            key = (row["resource_group"], row["dimension"], row["broker"])
            by_broker.setdefault(key, {})[row["variant"]] = row["admitted"]
    lines = []
    for (group, dimension, broker), found in sorted(by_broker.items()):
        if not found.keys() >= {"replayed", "changed"}:
            continue  # without a limit nothing is played, and nothing is compared
        was, now = found["replayed"], found["changed"]
        lines.append(
            f"{group:<16} {dimension:<20} {broker:<16} {was:>12,.0f} -> {now:>10,.0f}"
            f"  ({now - was:+,.0f})"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
