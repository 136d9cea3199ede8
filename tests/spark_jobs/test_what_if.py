"""A replay without a change gives the recording, and with a change its effect."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from coordinator.core.model import Dimension, Rates
from coordinator.simulation.replay import Change
from coordinator.simulation.world import World
from spark_jobs import what_if
from spark_jobs.changes import parse
from spark_jobs.recording import open_recording
from spark_jobs.refusals import RefusedInput
from spark_jobs.what_if import ANSWER, WhatIfOutcome, ask, main, text
from tests.spark_jobs.recorded import RecordedCluster
from tests.spark_jobs.simulated import run_recorded
from tests.spark_jobs.test_advise import SECONDS, Listed

MESSAGES = Dimension.PUBLISH_MESSAGES.value


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of three brokers: two want more than there is, one does not."""
    place = tmp_path_factory.mktemp("calm")
    cluster = RecordedCluster(limit=3000, place=place)
    for broker, demand in (("broker-1", 5000), ("broker-2", 2500), ("broker-3", 300)):
        cluster.start(broker, demand=demand)
    cluster.run(30)
    cluster.write()
    return place


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The place of the answer, in which there is something else."""
    place = tmp_path_factory.mktemp("out")
    (place / "kept.txt").write_text("of an operator")
    return place


@pytest.fixture(scope="module")
def doubled(spark: SparkSession, calm: Path, out: Path) -> WhatIfOutcome:
    """The answer to: what if the limit were twice as high?"""
    changes = parse(["orders.publishRateInMsgs=6000"])
    return ask(open_recording(spark, calm), changes, seconds=20, out=out)


def admitted(outcome: WhatIfOutcome, variant: str, broker: str | None = None) -> float:
    """Return the rate per second that an answer gives."""
    (row,) = [
        row
        for row in outcome.rows
        if (row["variant"], row["broker"], row["dimension"]) == (variant, broker, MESSAGES)
    ]
    return float(row["admitted"])


def test_played_again_as_it_was_it_gives_what_was_recorded(doubled: WhatIfOutcome) -> None:
    """That is what lets one trust the rest of the answer."""
    assert admitted(doubled, "recorded") == pytest.approx(3_000, rel=0.02)
    assert admitted(doubled, "replayed") == pytest.approx(3_000, rel=0.02)
    assert doubled.warnings == ()
    assert doubled.exit_code == 0


def test_a_higher_limit_goes_to_those_who_waited(doubled: WhatIfOutcome) -> None:
    """The broker that had what it wanted gets no more; the others share the rest."""
    assert admitted(doubled, "changed", "broker-3") == pytest.approx(300, rel=0.05)
    assert admitted(doubled, "changed") == pytest.approx(6_000, rel=0.03)


def test_the_answer_fits_a_screen(doubled: WhatIfOutcome) -> None:
    """Three lines a dimension, and who gains."""
    shown = text(doubled)

    assert "recorded" in shown
    assert "changed" in shown
    assert "broker-2" in shown


def test_the_answer_is_written_beside_what_else_is_there(
    doubled: WhatIfOutcome, out: Path, spark: SparkSession
) -> None:
    """Every row, in a directory of its own: Spark deletes what is in the one that it writes."""
    written = spark.read.parquet(str(out / ANSWER)).collect()

    assert sorted(map(str, written)) == sorted(str(Row(**row)) for row in doubled.rows)
    assert sorted(path.name for path in out.iterdir()) == [ANSWER, "kept.txt"]


def test_a_group_beyond_the_rows_that_are_shown_is_answered(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cut is told, and is no lack of a recording."""
    world, names = World(7, 30), ("a", "b")
    for name in names:
        rates = Rates.from_mapping({Dimension.PUBLISH_MESSAGES: 1_000})
        world.define(name, rates, law="max-min", policy="balanced")
    wanted = {name: Listed([500] * SECONDS) for name in names}
    world.start("broker-1", wanted, dimension=Dimension.PUBLISH_MESSAGES)
    run_recorded(world, "test", tmp_path)
    monkeypatch.setattr(what_if, "ROWS_MAX", 1)
    changes = parse([f"{name}.publishRateInMsgs=2000" for name in names])
    outcome = ask(open_recording(spark, tmp_path), changes, seconds=10)

    assert [row["resource_group"] for row in outcome.rows] == ["a"]
    assert outcome.warnings[0] == "only the first 1 rows are shown"


def test_nothing_is_foretold_of_what_would_pass_without_a_limit(
    spark: SparkSession, calm: Path
) -> None:
    """It would read as if nothing passed any more."""
    changes = parse(["orders.publishRateInMsgs=-1"])
    outcome = ask(open_recording(spark, calm), changes, seconds=10)

    assert outcome.warnings[-1].startswith(f"orders {MESSAGES}: without a limit all that is wanted")
    assert " -> " not in text(outcome)


def test_a_group_that_was_not_recorded_is_refused_by_name(spark: SparkSession, calm: Path) -> None:
    """Silence about it would read as "no effect"."""
    with pytest.raises(RefusedInput, match="payments"):
        ask(open_recording(spark, calm), parse(["payments.publishRateInMsgs=1"]))


def test_several_settings_of_a_group_add_up() -> None:
    """-1 is "not limited", as in Pulsar; names of groups may have dots."""
    changes = parse(["a.b.publishRateInMsgs=-1", "a.b.law=static", "c.weights=topics"])

    assert changes["a.b"] == Change(limits={Dimension.PUBLISH_MESSAGES: None}, law="static")
    assert changes["c"].weights == "topics"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("publishRateInMsgs=1", "GROUP.SETTING=VALUE"),
        ("orders.speed=1", "no setting; there are publishRateInMsgs"),
        ("orders.publishRateInMsgs=fast", "whole number"),
        ("orders.publishRateInMsgs=-2", "whole number"),
        ("orders.law=grd", "no law; there are max-min"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_to_write(setting: str, said: str) -> None:
    """Before anything is played."""
    with pytest.raises(RefusedInput, match=said):
        parse([setting])


def test_wrong_use_ends_with_2(calm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This holds where spark-submit calls it, too."""
    assert main([str(calm)]) == 2
    assert "nothing is to be changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--interval", "0"], "0: write an interval of 0.1 to 300 seconds"),
        (["--interval", "-1"], "-1: write an interval"),
        (["--interval", "nan"], "nan: write an interval"),
        (["--set", "orders.law=static", "--seconds", "0"], "0: play 10 seconds or more"),
    ],
)
def test_a_replay_that_would_not_end_or_begin_is_refused(
    words: list[str], said: str, calm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is read."""
    assert main([str(calm), *words]) == 2
    assert said in capsys.readouterr().err
