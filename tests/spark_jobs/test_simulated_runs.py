"""A simulated run that is recorded is reported on with the simulator's own figures.

Two things differ, and bound the tolerances. The simulator books a step of 50 ms to the second in which it
ended, a recorder splits it: so a broker's sums differ by one step at most, at any second. And the report
knows demand from what was held, the simulator from the clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.simulation import metrics
from coordinator.simulation.experiment import allowed_per_step, central_per_step, series_of
from coordinator.simulation.recording import GroupRecord, RunRecording
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Parameters, Stage
from spark_jobs.convergence_report import frames, kept_at
from spark_jobs.places import place_of
from spark_jobs.recording import open_recording
from spark_jobs.report_data import Value
from spark_jobs.tables import SCHEMAS
from tests.spark_jobs import plain
from tests.spark_jobs.recorded import START_NS
from tests.spark_jobs.simulated import run_recorded

pytestmark = [pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(900)]
START = START_NS // 10**9
PLAYED = ("S1", "S4", "S6", "S13", "S22")
"""Steps of demand, joins, a crash, changes of the limit and of weights, hidden demand."""
BROKERS = ("broker", "sender", "member")
"""Columns that name one."""

Run = tuple[Stage, RunRecording]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything is recorded."""
    return tmp_path_factory.mktemp("simulated")


@pytest.fixture(scope="module")
def runs(place: Path) -> dict[str, Run]:
    """Every scenario, run and recorded."""
    found = {}
    for name in PLAYED:
        stage = SCENARIOS[name].build(Parameters())
        found[name] = stage, run_recorded(stage.world, name, place / name)
    return found


@pytest.fixture(scope="module")
def events(
    runs: dict[str, Run],
    place: Path,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, list[Value]]:
    """Return the report's events by scenario, made in one go as groups of one cluster."""
    tables = {
        table: reduce(DataFrame.unionByName, [_renamed(spark, place, name, table) for name in runs])
        for table in SCHEMAS
    }
    found: dict[str, list[Value]] = {name: [] for name in runs}
    made = frames(tables, kept_at(place_of(tmp_path_factory.mktemp("figures"))))
    for row in made["events"].orderBy("happened").collect():
        found[row["resource_group"]].append(row.asDict())
    return found


def _renamed(spark: SparkSession, place: Path, name: str, table: str) -> DataFrame:
    """A scenario's table, with the scenario as the group and in every broker's name."""
    rows = open_recording(spark, place / name).tables[table]
    if "resource_group" in rows.columns:
        rows = rows.withColumn("resource_group", F.lit(name))
    for column in set(BROKERS) & set(rows.columns):
        rows = rows.withColumn(column, F.concat(F.lit(f"{name} "), F.col(column)))
    return rows


def record_of(run: Run) -> GroupRecord:
    """The only group's."""
    ((_, found),) = run[1].records.items()
    return found


@pytest.mark.verify
@pytest.mark.parametrize("name", PLAYED)
def test_control_traffic_is_the_same_to_the_byte(
    name: str, runs: dict[str, Run], place: Path
) -> None:
    """Reports sent with their bytes, and reports delivered."""
    rows = plain.read(place / name, "reports")
    sent = {
        (row["sender"], row["sender_incarnation"], row["sequence"]): row["report_bytes"]
        for row in rows
        if row["direction"] == "sent"
    }
    arrived = {
        (row["run"], row["monotonic_ns"], row["sender"], row["sequence"])
        for row in rows
        if row["direction"] == "received"
    }

    control = runs[name][1].control
    assert (len(sent), sum(sent.values())) == (control.reports, control.bytes_out)
    assert len(arrived) == control.deliveries
    assert {row["cluster"] for row in rows} == {name}


@pytest.mark.parametrize("name", PLAYED)
def test_what_was_admitted_is_never_further_apart_than_a_step(
    name: str, runs: dict[str, Run], place: Path
) -> None:
    """Summed up to any second, broker by broker; a crashed one's last second is lost."""
    stage, _ = runs[name]
    found = record_of(runs[name])
    recorded: Counter[tuple[str, int]] = Counter()
    for row in plain.read(place / name, "admitted"):
        if row["dimension"] == "publishRateInMsgs":
            recorded[row["broker"], round(row["second"].timestamp()) - START] += row["admitted"]
    most = max(limit for _, limit in found.limit_changes)
    for broker, track in found.tracks.items():
        last = max(second for who, second in recorded if who == broker)
        apart = 0
        for second in range(last + 1):
            apart += recorded[broker, second] - track.admitted[second]
            assert abs(apart) <= most / 20, (broker, second)
        assert last >= stage.seconds - 2 or broker not in stage.world.hosts


@pytest.mark.parametrize("name", PLAYED)
def test_every_event_of_the_scenario_is_found(
    name: str, runs: dict[str, Run], events: Mapping[str, list[Value]]
) -> None:
    """In its second or in the one before, in which a step of the simulator began."""
    found = {event["happened"] - START for event in events[name]}

    assert all({second - 1, second} & found for second in runs[name][0].events), found


@pytest.mark.parametrize("name", PLAYED)
def test_the_report_says_what_the_simulator_says(
    name: str, runs: dict[str, Run], events: Mapping[str, list[Value]]
) -> None:
    """The figures of every event are those of the simulator's own series."""
    stage, _ = runs[name]
    judged = [event for event in events[name] if event["judged"]]
    compared = [event for event in judged if event["happened"] - START >= stage.measured_from - 1]
    assert compared
    for event in compared:
        for figure, expected, tolerance in _expected(event, record_of(runs[name])):
            near = pytest.approx(expected, abs=tolerance)
            assert event[figure] == near, (event["kinds"], event["happened"] - START, figure)


def _central(record: GroupRecord) -> list[int]:
    """Return, second by second, how many of the same arrivals one central bucket would admit."""
    steps = central_per_step(record, allowed_per_step(record)).admitted
    each = len(steps) // record.seconds
    return [sum(steps[second * each : (second + 1) * each]) for second in range(record.seconds)]


def _expected(event: Value, record: GroupRecord) -> list[tuple[str, float | None, float]]:
    """Figures of an event's period, from the simulator's series, and how far the report may be off."""
    series = series_of(record)
    happened, known, ends = (event[name] - START for name in ("happened", "known", "ends"))
    period, half = range(happened, ends + 1), range(known + (ends - known) // 2 + 1, ends + 1)
    shares = list(metrics.shares(series, half).values())
    settle = metrics.settle(series, known, period.stop)
    central = _central(record)[happened : period.stop]
    admitted = [series.total_admitted(second) for second in period]
    nothing_to_use = not series.limits[known]
    # A step of 50 ms may be counted in the second before or after, also one of a limit that was higher.
    limits = [series.limits[second] for second in range(max(0, happened - 1), period.stop)]
    step = 0.05 * max(limits) / min(filter(None, limits), default=1)
    return [
        # The report counts from the end of the second in which the event was known.
        ("settle_s", None if settle is None else max(0, settle - 1), 1),
        ("volume_over", metrics.overshoot_volume(series, period), step),
        ("time_over_101", metrics.time_over(series, period, 1.01), 1 / len(period)),
        ("utilisation", None if nothing_to_use else metrics.utilisation(series, period), 0.005),
        ("regret", None if nothing_to_use else metrics.regret(admitted, central), 0.005),
        ("jain", metrics.jain(shares) if shares else None, 0.001),
        ("min_share", min(shares, default=None), 0.01),
        ("starvation_s", metrics.starvation(series, period), 1),
    ]
