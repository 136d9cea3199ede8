"""Advice on simulated groups of a known demand: the right limit, or the reason why it is not known."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.cli import manifest
from coordinator.core.model import NANOS_PER_SECOND, Dimension, Rates
from coordinator.simulation.world import World
from spark_jobs.advice_evidence import namespaces_then
from spark_jobs.advice_shown import AdviceOutcome, page, text
from spark_jobs.advise import ask, group_demand, main, recorded_days
from spark_jobs.recording import open_recording
from spark_jobs.refusals import RefusedInput
from tests.spark_jobs.simulated import run_recorded

SECONDS = 600
SHARE = 0.02
"""Twelve of these seconds may be throttled."""
MESSAGES = Dimension.PUBLISH_MESSAGES
BROKERS = ("broker-1", "broker-2")


@dataclass(frozen=True, slots=True)
class Listed:
    """A demand that is told second by second."""

    values: Sequence[int]
    message_bytes: int = 100
    topics: int = 1

    def rate(self, now_ns: int) -> int:
        """Messages per second."""
        return self.values[min((now_ns - 1) // NANOS_PER_SECOND, SECONDS - 1)]


def simulated(
    place: Path, limits: Mapping[str, int], demand: Mapping[str, Sequence[int]]
) -> Mapping[str, list[int]]:
    """Record a run of two brokers, each with half of each demand; what was wanted in each second."""
    world = World(7, SECONDS)
    for name, limit in limits.items():
        rates = Rates.from_mapping({MESSAGES: limit})
        world.define(name, rates, law="max-min", policy="balanced")
    for broker in BROKERS:
        halves = {name: Listed([value // 2 for value in values]) for name, values in demand.items()}
        world.start(broker, halves, dimension=MESSAGES)
    recording = run_recorded(world, "test", place)
    return {
        name: [
            sum(each)
            for each in zip(
                *(track.wanted for track in recording.group(name, MESSAGES).tracks.values()),
                strict=True,
            )
        ]
        for name in limits
    }


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, list[int]]]:
    """A recording, and what was wanted.

    *calm* is never held back, *spiky* in six seconds, *scarce* wants too much half of the time.
    """
    rng = random.Random(11)
    demand = {
        "calm": [round(rng.lognormvariate(7, 0.3)) for _ in range(SECONDS)],
        "spiky": [
            4_000 if second % 100 == 50 else rng.randint(500, 900) for second in range(SECONDS)
        ],
        "scarce": [3_000 if second % 60 < 30 else 400 for second in range(SECONDS)],
    }
    place = tmp_path_factory.mktemp("known")
    wanted = simulated(place, {"calm": 100_000, "spiky": 1_500, "scarce": 1_000}, demand)
    return place, wanted


@pytest.fixture(scope="module")
def advised(
    spark: SparkSession,
    known: tuple[Path, Mapping[str, list[int]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[AdviceOutcome, Path]:
    """The advice on it, and where it was written."""
    out = tmp_path_factory.mktemp("advice")
    return ask(open_recording(spark, known[0]), share=SHARE, replay_s=60, out=out), out


def of(outcome: AdviceOutcome, group: str) -> Mapping[str, Any]:
    """The only row of a group."""
    (row,) = (row for row in outcome.rows if row["resource_group"] == group)
    assert row["dimension"] == MESSAGES.value
    return row


@pytest.mark.verify
@pytest.mark.parametrize("group", ["calm", "spiky"])
def test_the_advised_limit_is_within_five_percent_of_the_right_one(
    advised: tuple[AdviceOutcome, Path], known: tuple[Path, Mapping[str, list[int]]], group: str
) -> None:
    """The right one throttles twelve seconds of the demand that the simulator knows."""
    right = sorted(known[1][group])[-1 - int(SHARE * SECONDS)]
    row = of(advised[0], group)

    assert row["limit"] == pytest.approx(right, rel=0.05)
    assert row["seconds"] == pytest.approx(SECONDS, abs=10)
    assert not any("what they wanted" in caution for caution in row["cautions"])


@pytest.mark.verify
def test_demand_that_was_held_back_for_long_is_said_to_be_unknown(
    advised: tuple[AdviceOutcome, Path],
) -> None:
    """No limit, but a step up from the one in force."""
    row = of(advised[0], "scarce")

    assert (row["limit"], row["high"], row["in_force"], row["step"]) == (None, None, 1_000, 1_500)
    assert row["low"] == pytest.approx(1_000, rel=0.05)
    assert "what they wanted is not known" in row["cautions"][0]
    assert row["played"] == []
    assert advised[0].exit_code == 1


@pytest.mark.verify
def test_the_core_throttles_more_seconds_the_lower_the_limit_is(
    advised: tuple[AdviceOutcome, Path],
) -> None:
    """The busiest minute is played at parts of the limit; the grid goes by all that was recorded."""
    row = of(advised[0], "calm")
    lower, here, higher = row["played"]

    assert [round(one["limit"] / row["limit"], 2) for one in row["played"]] == [0.8, 1.0, 1.25]
    assert lower["throttled"] > here["throttled"] >= higher["throttled"]
    assert here["throttled"] <= 20
    (at,) = (point for point in row["grid"] if point["limit"] == row["limit"])
    assert at["least"] <= at["most"] <= row["allowed"] == int(SHARE * row["seconds"])


@pytest.mark.verify
def test_who_would_feel_it_is_named(advised: tuple[AdviceOutcome, Path]) -> None:
    """Both brokers want the same, in the six seconds of a spike and six more."""
    brokers = of(advised[0], "spiky")["brokers"]

    assert {one["broker"] for one in brokers} == set(BROKERS)
    assert all(one["lacking"] > 0 for one in brokers)
    assert of(advised[0], "scarce")["brokers"] == []


@pytest.mark.verify
def test_the_file_is_one_for_groups_apply_that_holds_nothing_back(
    advised: tuple[AdviceOutcome, Path],
) -> None:
    """A group that observes the other, a step away from its limit; the unknown one is left out."""
    outcome, out = advised
    declared = manifest.read(out / "groups.yaml")

    assert set(declared) == {"calm-advised", "spiky-advised"}
    fields = declared["calm-advised"].fields
    assert (fields["enforcement"], fields["observes"]) == ("observe", "calm")
    assert fields[MESSAGES.value] == of(outcome, "calm")["step"] == 50_000
    assert declared["calm-advised"].attached == ()
    assert "left out: scarce publishRateInMsgs" in (out / "groups.yaml").read_text()


@pytest.mark.verify
def test_the_advice_is_written_as_it_is_shown(advised: tuple[AdviceOutcome, Path]) -> None:
    """As text and as JSON."""
    outcome, out = advised
    shown = text(outcome)

    assert (out / "advice.txt").read_text() == f"{shown}\n"
    assert (out / "index.html").read_text() == page("test", outcome)
    assert json.loads((out / "advice.json").read_text())["throttled"] == SHARE
    assert "played again, of the busiest 60 s:" in shown
    assert "would feel it: broker-" in shown
    assert "caution: in " in shown


def test_a_group_that_was_not_recorded_is_refused(spark: SparkSession, story: Path) -> None:
    """Silence would read as "no limit needed"."""
    with pytest.raises(RefusedInput, match="nothing was recorded of payments"):
        ask(open_recording(spark, story), groups=["payments"], replay_s=0)


@pytest.mark.parametrize("percent", ["0", "-1", "10.1", "nan"])
def test_a_part_of_the_time_that_cannot_be_meant_is_refused(
    percent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is read."""
    assert main([str(tmp_path), "--throttled", percent]) == 2
    assert "above 0 and up to 10%" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["-1", "86401"])
def test_a_replay_that_cannot_be_meant_is_refused(
    seconds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is read, by its name; none at all is one that can."""
    assert main([str(tmp_path), "--replay", seconds]) == 2
    told = f"--replay {seconds}: play 0 to 86400 seconds of each group\n"
    assert capsys.readouterr().err == told


def test_namespaces_are_named_by_their_traffic_in_the_throttled_minutes(
    spark: SparkSession,
) -> None:
    """In the unit of the dimension, whichever group they belong to besides, and no more than five."""
    minute = 1_800_000_000
    at = F.timestamp_seconds(F.col("minute"))
    rows = [
        (minute, "shop", "orders", ["g", "other"], "Publish", 10, 5_000),
        (minute, "shop", "orders", ["g"], "Dispatch", 99, 99),
        (minute + 60, "shop", "orders", ["g"], "Publish", 99, 99),
        *((minute, "shop", f"n{number}", ["g"], "Publish", number, 100) for number in range(6)),
    ]
    columns = "minute bigint, tenant string, namespace string, resource_groups array<string>,"
    columns += "monitoring_class string, messages bigint, bytes bigint"
    namespaces = spark.createDataFrame(rows, columns).withColumn("minute", at)
    throttled = spark.createDataFrame(
        [("g", "Publish", MESSAGES.value, minute + second) for second in (3, 59)],
        "resource_group string, monitoring_class string, dimension string, second bigint",
    )

    assert namespaces_then(namespaces, throttled) == {
        ("g", MESSAGES.value): [
            {"name": "shop/orders", "passed": 10},
            *({"name": f"shop/n{number}", "passed": number} for number in (5, 4, 3, 2)),
        ]
    }


def test_seconds_of_a_gap_are_not_known_however_long_it_is(spark: SparkSession) -> None:
    """A host's clock that begins in 1970, and is set, leaves one of years."""
    start = 1_800_000_000
    brokers = spark.createDataFrame(
        [
            ("g", "Publish", MESSAGES.value, start + second, broker, 5.0, 6.0, 1, known)
            for second, broker, known in [
                (0, "a", True), (1, "a", True), (1, "b", True), (2, "a", False), (3, "a", True),
            ]
        ],
        """resource_group string, monitoring_class string, dimension string, second bigint,
        broker string, least double, most double, topics bigint, known boolean""",
    )  # fmt: skip
    gaps = spark.createDataFrame(
        [(1, start), (start + 3, start + 700)], "from_second bigint, to_second bigint"
    )
    found = group_demand(brokers, gaps).collect()

    assert [(row["second"] - start, row["least"], row["most"]) for row in found] == [
        (1, 10.0, 12.0)
    ]


def test_a_day_was_recorded_of_which_some_sidecar_saw_half(spark: SparkSession) -> None:
    """Seconds of several brokers are the same ones."""
    midnight, half = 1_799_971_200, 43_200

    def alive(day: int, seconds: int) -> DataFrame:
        second = F.timestamp_seconds(F.lit(midnight + day * 2 * half) + F.col("id"))
        return spark.range(seconds).select(F.lit("alive").alias("cause"), second.alias("second"))

    lifecycle = alive(0, half).union(alive(1, half - 1)).union(alive(1, half - 1))

    assert recorded_days(lifecycle) == {date(2027, 1, 15)}
