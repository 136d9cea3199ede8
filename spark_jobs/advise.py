"""Advise: the limit of each group that would have throttled for at most a given part of the time.

Run as ``pulsar-quota advise PLACE`` or with spark-submit. advice.py works out the limit, and why it may
be wrong; here recorded rows become demand, and the evidence is gathered:

* a *grid* of limits, with the seconds that each would have throttled, over all that was recorded;
* the busiest seconds, *played* again by the real core (coordinator/simulation/replay.py) at parts of the
  advised limit: no broker has the whole of it, and what one leaves is another's a round later;
* who would *feel* it: brokers that would want more than their max-min share in the throttled seconds, and
  namespaces with most of the traffic of those minutes.

Seconds that a broker's sidecar did not see as a whole are not known, for all groups where it recorded
nothing at all (events.py has the gaps). Dimensions are those with a limit in force; all of them, of a
group that has none.

Exit codes: 0 done; 1 done, but an advice may be wrong, or files were skipped; 2 wrong use, or input of
which nothing can be said.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, Unpack

import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.simulation.tree_replay import TreePlace
from spark_jobs import events as eventing
from spark_jobs.advice import SHARE, WHOLE_S, RecordedDemand, advise, busiest_window
from spark_jobs.advice_evidence import REPLAY_S, brokers_then, namespaces_then, played
from spark_jobs.advice_shown import AdviceOutcome, as_json, page, text
from spark_jobs.claims import writing
from spark_jobs.figures import span_of
from spark_jobs.pages import refuse_without
from spark_jobs.places import StorePlace, place_of
from spark_jobs.program import parser_of, run
from spark_jobs.proposal import as_yaml
from spark_jobs.recording import ReadOptions, Recording, recording_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.replay_input import tree_places
from spark_jobs.session import computing
from spark_jobs.timeline import SATURATED, SETTINGS, held_share, limits_over_time, seen_once

SHARE_MAX = 0.1
"""A limit that holds back for longer is one that clients are to feel."""
GROUPS_MAX = 10_000
REPLAY_MAX_S = 86_400

_GROUP = ["resource_group", "monitoring_class", "dimension"]
_ADVICE = """resource_group string, monitoring_class string, dimension string, advice string,
    limit bigint, busiest bigint, throttled array<bigint>"""


def broker_demand(admitted: DataFrame) -> DataFrame:
    """One row per group, class, dimension, second and broker: least, most, topics, known."""
    merged = admitted.groupBy(*_GROUP, F.unix_seconds("second").alias("second"), "broker").agg(
        F.sum("admitted").cast("double").alias("least"),
        F.sum("held_us").alias("held_us"),
        F.sum("observed_us").alias("observed_us"),
        F.max("topics").alias("topics"),
    )
    held = held_share(F.col("held_us"), F.col("observed_us"))
    most = F.when(held >= SATURATED, F.lit(math.inf)).otherwise(F.try_divide("least", 1 - held))
    return merged.select(
        *_GROUP, "second", "broker", "least", most.alias("most"),
        F.greatest("topics", F.lit(1)).alias("topics"),
        seen_once().alias("known"),
    )  # fmt: skip


def group_demand(brokers: DataFrame, of_gaps: DataFrame) -> DataFrame:
    """One row per group, class, dimension and known second: least and most, of all brokers together."""
    # By spans of time: a gap has years of seconds where a host's clock began in 1970.
    spans = F.explode(F.sequence(span_of("from_second"), span_of("to_second")))
    lost = of_gaps.select("from_second", "to_second", spans.alias("span"))
    in_a_gap = [
        span_of("second") == F.col("span"),
        F.col("second").between(F.col("from_second"), F.col("to_second")),
    ]
    together = brokers.groupBy(*_GROUP, "second").agg(
        F.sum("least").alias("least"),
        F.sum("most").alias("most"),
        F.bool_and("known").alias("known"),
    )
    return together.where("known").drop("known").join(F.broadcast(lost), in_a_gap, "left_anti")


def in_force(limits: DataFrame) -> DataFrame:
    """One row per group and dimension with a definition: its last limit, and its settings."""
    return limits.groupBy("resource_group", "dimension").agg(
        *(F.max_by(name, "configuration_version").alias(name) for name in ("limit", *SETTINGS))
    )


def recorded_days(lifecycle: DataFrame) -> frozenset[date]:
    """The days (UTC) of which some sidecar recorded half or more."""
    alive = lifecycle.where(F.col("cause") == "alive").select("second").distinct()
    days = alive.groupBy(F.to_date("second").alias("day")).agg(F.count("*").alias("seconds"))
    return frozenset(row["day"] for row in days.where(F.col("seconds") >= WHOLE_S).collect())


def ask(
    recording: Recording,
    *,
    share: float = SHARE,
    groups: Sequence[str] = (),
    replay_s: int | None = None,
    out: Path | StorePlace | str | None = None,
) -> AdviceOutcome:
    """Ask for advice, of a recording.

    Args:
        recording: what the sidecars recorded.
        share: the part of the time that may be throttled.
        groups: which ones; none is all.
        replay_s: how many seconds of each group are played; None is REPLAY_S of up to REPLAY_GROUPS.
        out: where page, figures, text and groups.yaml go, when anywhere.

    Raises:
        RefusedInput: nothing can be said of it.
        OSError: the output cannot be written.
    """
    if out is None:
        return _outcome(recording, share, groups, replay_s)
    with writing(recording.spark, out) as (target, store):
        outcome = _outcome(recording, share, groups, replay_s)
        store.put(target / "advice.json", f"{as_json(outcome)}\n".encode())
        store.put(target / "advice.txt", f"{text(outcome)}\n".encode())
        store.put(target / "groups.yaml", as_yaml(outcome.rows, share).encode())
        store.put(target / "index.html", page(recording.cluster, outcome).encode())
    return outcome


def _outcome(
    recording: Recording, share: float, groups: Sequence[str], replay_s: int | None
) -> AdviceOutcome:
    with computing(recording.spark, f"{recording.directory}: Spark could not work advice out"):
        _refuse_unrecorded(recording, groups)
        rows = tuple(_rows(recording, share, groups, replay_s))
    lacking = sorted(set(groups) - {row["resource_group"] for row in rows})
    if lacking or not rows:
        names = ", ".join(lacking) or "any group"
        raise RefusedInput(f"{recording.directory}: no whole second was recorded of {names}")
    cut = f"only the first {GROUPS_MAX:,} groups and dimensions are there"
    warnings = (*recording.warnings, *([cut] if len(rows) == GROUPS_MAX else []))
    return AdviceOutcome(rows, share, warnings)


def _refuse_unrecorded(recording: Recording, groups: Sequence[str]) -> None:
    """Refuse groups without a row before advice on the others is worked out."""
    if groups:
        asked = recording.tables["admitted"].where(F.col("resource_group").isin(*groups))
        found = {
            row["resource_group"] for row in asked.select("resource_group").distinct().collect()
        }
        missing = sorted(set(groups) - found)
        if missing:
            raise RefusedInput(
                f"{recording.directory}: nothing was recorded of {', '.join(missing)}"
            )


def _rows(
    recording: Recording, share: float, groups: Sequence[str], replay_s: int | None
) -> Iterator[dict[str, Any]]:
    admitted = recording.tables["admitted"]
    if groups:
        admitted = admitted.where(F.col("resource_group").isin(*groups))
    limits = limits_over_time(recording.tables["configuration"])
    settings = in_force(limits).persist()
    brokers = _limited(broker_demand(admitted), settings)
    lifecycle = recording.tables["lifecycle"]
    runs = eventing.runs(lifecycle, recording.tables["membership"], recording.tables["reports"])
    seconds = group_demand(brokers, eventing.gaps(lifecycle, runs))
    known = seconds.join(F.broadcast(settings), ["resource_group", "dimension"])
    work = _adviser(share, replay_s or REPLAY_S, recorded_days(lifecycle) or None)
    advised = known.groupBy(*_GROUP).applyInPandas(work, _ADVICE)
    advised = advised.persist()
    throttled = advised.select(*_GROUP, "limit", F.explode("throttled").alias("second"))
    felt = {"brokers": brokers_then(brokers, throttled, settings),
            "namespaces": namespaces_then(recording.tables["namespaces"], throttled)}  # fmt: skip
    ordered = advised.drop("throttled").orderBy(*_GROUP).limit(GROUPS_MAX)
    found = [row.asDict() for row in ordered.collect()]
    of_settings = {(row["resource_group"], row["dimension"]): row for row in settings.collect()}
    plays = played(recording, found, replay_s)
    places = tree_places(recording)
    for row in found:
        key = (row["resource_group"], row["dimension"])
        held = of_settings[key]
        yield {
            "resource_group": row["resource_group"],
            "dimension": row["dimension"],
            "in_force": held["limit"],
            **_cautioned(json.loads(row["advice"]), places.get(row["resource_group"])),
            "played": plays.get(key, []),
            **{kind: found_of.get(key, []) for kind, found_of in felt.items()},
            "settings": {name: held[name] for name in SETTINGS},
        }


def _cautioned(advice: dict[str, Any], place: TreePlace | None) -> dict[str, Any]:
    """Return advice on a group that shares its parent's limit with the caution that this needs."""
    if place is not None and place.parent:
        told = (
            f"it shares the limit of {place.parent}: a limit of its own is the most that it may have, "
            "and what it has when all groups want everything follows from its guarantee"
        )
        advice["cautions"].append(told)
    return advice


def _limited(brokers: DataFrame, settings: DataFrame) -> DataFrame:
    """Leave out dimensions without a limit of groups that have one in another."""
    limited = F.count("limit").over(Window.partitionBy("resource_group"))
    chosen = (
        settings.withColumn("limited", limited)
        .where(F.col("limit").isNotNull() | (F.col("limited") == 0))
        .select("resource_group", "dimension")
    )
    return brokers.join(F.broadcast(chosen), ["resource_group", "dimension"], "left_semi")


def _adviser(
    share: float, window_s: int, recorded: Collection[date] | None
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the work of an executor on one group and dimension."""

    def work(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows.sort_values("second")
        limit = rows["limit"].iloc[0]
        seconds = rows["second"].tolist()
        of = RecordedDemand(seconds, rows["least"].tolist(), rows["most"].tolist())
        found = advise(of, share, None if pd.isna(limit) else int(limit), recorded)
        told = asdict(found)
        del told["throttled"]
        head = [rows[name].iloc[0] for name in _GROUP]
        peak = seconds[of.most.index(max(of.most))]
        since = busiest_window(found.throttled or (peak,), window_s)
        row = (*head, json.dumps(told, default=str), found.limit, since, list(found.throttled))
        return pd.DataFrame([row])

    return work


def produce(
    directory: Path | StorePlace | str,
    *,
    share: float = SHARE,
    groups: Sequence[str] = (),
    replay_s: int | None = None,
    out: Path | StorePlace | str | None = None,
    **reading: Unpack[ReadOptions],
) -> AdviceOutcome:
    """Ask for advice with a session of its own.

    Raises:
        RefusedInput: the part of the time is none, or too much; the seconds to play are less than none,
            or more than a day; or nothing can be said of the directory.
        OSError: the output cannot be written.
    """
    if not 0 < share <= SHARE_MAX:
        raise RefusedInput(f"{share:%}: write a part of the time above 0 and up to {SHARE_MAX:.0%}")
    if replay_s is not None and not 0 <= replay_s <= REPLAY_MAX_S:
        raise RefusedInput(f"--replay {replay_s}: play 0 to {REPLAY_MAX_S} seconds of each group")
    if out is not None:
        refuse_without("jinja2")
    target = None if out is None else place_of(out)
    recording = recording_of("pulsar-quota advise", directory, **reading)
    return ask(recording, share=share, groups=groups, replay_s=replay_s, out=target)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = parser_of("advise", __doc__, "where advice and groups.yaml go", out_required=False)
    parser.add_argument(
        "--throttled", type=_percent, default=SHARE, dest="share", help="percent of the time"
    )
    parser.add_argument("--group", action="append", default=[], dest="groups")
    parser.add_argument(
        "--replay",
        type=int,
        dest="replay_s",
        help="seconds of each group that are played; 0 is none",
    )
    return run(parser, arguments, produce, text, as_json)


def _percent(text: str) -> float:
    return float(text) / 100


if __name__ == "__main__":
    sys.exit(main())
