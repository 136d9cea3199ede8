"""What if: the recorded demand under other limits, laws, weights, policies or intervals.

Run as ``pulsar-quota what-if DIR --set GROUP.SETTING=VALUE`` or with spark-submit, before anyone applies
the change. Each group's demand, second by second and broker by broker, is played again by the real core
(coordinator/simulation/replay.py, which also says what a recording cannot tell), once as it was and once
with the change; groups are spread over Spark's executors. Three columns come of it: what was *recorded*;
what the replay makes of the settings as they were (*replayed*: how far that is from the recording is how
far the answer can be trusted); and the same with the change (*changed*).

Exit codes: 0 done; 1 the answer is there, but the replay differs from the recording by more than
``TRUSTED_WITHIN``, or files were skipped; 2 wrong use, or input of which nothing can be said.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from coordinator.core.model import Dimension
from coordinator.simulation.replay import Change, ReplayFigures, recorded, replay
from spark_jobs.changes import BadChange, parse
from spark_jobs.intake import FileIntake, RefusedInput, examine, read
from spark_jobs.replay_input import KEY, definitions, demand, story_of
from spark_jobs.session import computing, session

SECONDS = 3_600
"""The part of each group that is played unless told otherwise: its last hour. A second of a broker takes
about a millisecond of processor time."""
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
    spark: SparkSession,
    intake: FileIntake,
    changes: Mapping[str, Change],
    *,
    round_seconds: float | None = None,
    seconds: int = SECONDS,
) -> DataFrame:
    """Play every group that is to be changed; all of them when only the interval is.

    Columns: resource_group, dimension, variant (recorded, replayed, changed), broker (null is all of them
    together), admitted per second, and for all together the figures of replay.Figures.
    """
    groups = sorted(changes) if changes else None
    stories = demand(read(spark, intake, "admitted"), groups, seconds)
    told = definitions(read(spark, intake, "configuration"))
    play = _player(dict(changes), round_seconds)
    return stories.groupBy(*KEY).cogroup(told.groupBy(*KEY)).applyInPandas(play, _ANSWER)


def ask(
    spark: SparkSession,
    intake: FileIntake,
    changes: Mapping[str, Change],
    *,
    round_seconds: float | None = None,
    seconds: int = SECONDS,
    out: Path | None = None,
) -> WhatIfOutcome:
    """Ask what if, of recorded files.

    Args:
        spark: the session.
        intake: what the sidecars recorded.
        changes: by group.
        round_seconds: another report interval for every sidecar.
        seconds: how many of each group, its last ones.
        out: where all rows go as Parquet, when anywhere.

    Raises:
        RefusedInput: nothing can be said of it.
        OSError: the output cannot be written.
    """
    with computing(spark, f"{intake.directory}: Spark could not play it again"):
        found = answers(
            spark, intake, changes, round_seconds=round_seconds, seconds=seconds
        ).persist()
        if out is not None:
            found.write.mode("overwrite").parquet(str(out))
        ordered = found.orderBy("resource_group", "dimension", "broker", "variant")
        rows = tuple(row.asDict() for row in ordered.limit(ROWS_MAX).collect())
    missing = sorted(set(changes) - {row["resource_group"] for row in rows})
    if missing or not rows:
        names = ", ".join(missing) or "any group"
        raise RefusedInput(f"{intake.directory}: nothing was recorded that limits {names}")
    return WhatIfOutcome(rows, (*intake.warnings, *_warnings(rows)))


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
    directory: Path,
    settings: Sequence[str],
    *,
    cluster: str | None = None,
    interval: float | None = None,
    seconds: int = SECONDS,
    cores: int = 2,
    out: Path | None = None,
) -> WhatIfOutcome:
    """Ask what if with a session of its own.

    Raises:
        BadChange: a setting cannot be understood, or nothing is to be changed.
        RefusedInput: nothing can be said of the directory.
        OSError: the output cannot be written.
    """
    changes = parse(settings)
    if not changes and interval is None:
        raise BadChange("nothing is to be changed: name a setting or an interval")
    intake = examine(directory, cluster)  # refuses before a session is started
    spark = session("pulsar-quota what-if", cores, quick=True)
    return ask(spark, intake, changes, round_seconds=interval, seconds=seconds, out=out)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = argparse.ArgumentParser(prog="what_if", description=__doc__)
    parser.add_argument("directory", type=Path, help="what the sidecars recorded")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--interval", type=float, help="another report interval, in seconds")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="how much of each group")
    parser.add_argument("--cluster", help="this cluster's files only")
    parser.add_argument("--out", type=Path, help="where all rows go, as Parquet")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        outcome = produce(
            options.directory, options.settings, cluster=options.cluster, interval=options.interval,
            seconds=options.seconds, out=options.out,
        )  # fmt: skip
    except (BadChange, RefusedInput) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    shown = as_json(outcome) if options.json else text(outcome)
    sys.stdout.write(f"{shown}\n")
    return outcome.exit_code


def as_json(outcome: WhatIfOutcome) -> str:
    """The answer for machines."""
    return json.dumps({"rows": outcome.rows, "warnings": outcome.warnings}, indent=1)


def _player(
    changes: Mapping[str, Change], round_seconds: float | None
) -> Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]:
    """Return the work of an executor on one group, with the changes in it."""

    def play(rows: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
        story = story_of(rows, told)
        if story is None:
            return pd.DataFrame(columns=list(_columns()))
        group = story.definitions[0][1].name
        changed = changes.get(group, Change()).to(story)
        variants = {
            "recorded": recorded(story),
            "replayed": replay(story),
            "changed": replay(changed, round_seconds=round_seconds or 1.0),
        }
        found = [
            row
            for variant, by_dimension in variants.items()
            for dimension, figures in by_dimension.items()
            for row in _rows(group, dimension, variant, figures)
        ]
        return pd.DataFrame(found, columns=list(_columns()))

    return play


def _columns() -> Iterator[str]:
    for column in _ANSWER.split(","):
        yield column.split()[0]


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
        was, now = found.get("replayed", 0.0), found.get("changed", 0.0)
        lines.append(
            f"{group:<16} {dimension:<20} {broker:<16} {was:>12,.0f} -> {now:>10,.0f}"
            f"  ({now - was:+,.0f})"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
