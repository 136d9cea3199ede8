"""The report of a recorded story: its figures by an independent calculation, its page, its exit codes."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow.parquet as pq
import pytest
from markupsafe import escape
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.convergence_report import (
    KEPT_TABLES,
    OVERALL,
    ReportOutcome,
    broken_certificates,
    frames,
    main,
    make,
    warnings_of,
)
from spark_jobs.enforcement import sentences
from spark_jobs.figures import DEFINITIONS
from spark_jobs.places import StorePlace
from spark_jobs.quality import clock_skew
from spark_jobs.recording import Recording, nothing, open_recording
from spark_jobs.refusals import RefusedInput
from spark_jobs.report_data import ReportData
from spark_jobs.tables import SCHEMAS
from tests.spark_jobs import plain
from tests.spark_jobs.recorded import START_NS, RecordedCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
START = START_NS // 10**9
#: What the story does: happened, known and the last second before the next event.
STORY = [
    (["start"], 0, 0, 19),
    (["join"], 20, 20, 39),
    (["configuration"], 40, 40, 59),
    (["crash"], 60, 64, 79),
    (["join"], 80, 80, 99),
]
#: The crashed sidecar's last seconds, and the one in which it came back.
UNKNOWN = [START + 60, START + 80]


@pytest.fixture(scope="module")
def figures(report: tuple[ReportOutcome, Path]) -> dict[str, Any]:
    """Return the contents of figures.json."""
    loaded: dict[str, Any] = json.loads((report[1] / "figures.json").read_text())
    return loaded


def test_every_event_of_the_story_is_found(figures: dict[str, Any]) -> None:
    """Kind, when it happened, when it was known and where its period ends."""
    assert [
        (event["kinds"], *(event[name] - START for name in ("happened", "known", "ends")))
        for event in figures["events"]
    ] == STORY
    assert [event["subjects"] for event in figures["events"]] == [
        ["broker-1", "broker-2"],
        ["broker-3"],
        ["6000/s"],
        ["broker-1"],
        ["broker-1"],
    ]


def test_the_figures_equal_an_independent_calculation(figures: dict[str, Any], story: Path) -> None:
    """Counts exactly, ratios to twelve digits, on the same recorded rows."""
    by_second = plain.seconds(story, "publishRateInMsgs", {0: 3000, START + 40: 6000})
    for event, (_, happened, known, ends) in zip(figures["events"], STORY, strict=True):
        expected = plain.figures(by_second, UNKNOWN, START + happened, START + known, START + ends)
        for name, value in expected.items():
            if isinstance(value, int) or value is None:
                assert event[name] == value, (event["kinds"], name)
            else:
                assert event[name] == pytest.approx(float(value), rel=1e-12), (
                    event["kinds"],
                    name,
                )


def test_a_crash_is_reclaimed_and_its_gap_is_shown(figures: dict[str, Any]) -> None:
    """The second that died with the sidecar is no evidence, and is listed."""
    crash = figures["events"][3]

    assert crash["reclaim_s"] == 4
    assert crash["seconds_unknown"] == 1
    assert [
        (gap["broker"], gap["from_second"] - START, gap["to_second"] - START, gap["cause"])
        for gap in figures["quality"]["gaps"]
    ] == [("broker-1", 60, 60, "lost with a crashed sidecar")]


@pytest.mark.verify
def test_control_bytes_are_those_of_the_wire(figures: dict[str, Any], story: Path) -> None:
    """As many as every sent report had."""
    sent = {
        (row["sender"], row["sender_incarnation"], row["sequence"]): row["report_bytes"]
        for row in plain.read(story, "reports")
        if row["direction"] == "sent"
    }
    expected: dict[str, int] = {}
    for (sender, _, _), size in sent.items():
        expected[sender] = expected.get(sender, 0) + size

    found = {row["broker"]: row["bytes"] for row in figures["quality"]["control_bytes"]}
    assert found == expected


def test_a_report_grows_old_until_the_next_one_of_the_same_life(
    figures: dict[str, Any], story: Path
) -> None:
    """A broker that was away for 20 s is no old report: its own were forgotten when it was gone."""
    arrived: dict[tuple[str, ...], dict[int, int]] = {}
    for row in plain.read(story, "reports"):
        if row["direction"] == "received":
            life = (row["broker"], row["sender"], row["run"], row["sender_incarnation"])
            at = arrived.setdefault(life, {})
            at[row["sequence"]] = min(
                at.get(row["sequence"], row["monotonic_ns"]), row["monotonic_ns"]
            )
    oldest: dict[tuple[str, str], float] = {}
    for (receiver, sender, *_), times in arrived.items():
        in_order = sorted(times.values())
        ages = [(later - at) / 1e9 for at, later in itertools.pairwise(in_order)]
        oldest[receiver, sender] = max([oldest.get((receiver, sender), 0.0), *ages])
    found = {
        (row["receiver"], row["sender"]): row["max_s"] for row in figures["quality"]["report_ages"]
    }

    assert found == oldest
    assert max(found.values()) < 5


def test_changes_that_people_made_are_listed(
    report: tuple[ReportOutcome, Path], figures: dict[str, Any]
) -> None:
    """As they ended, with who gained."""
    (operation,) = figures["operations"]

    assert (operation["text"], operation["actor"]) == ("twice <as much>", "admin")
    assert (operation["stage"], operation["settle_s"]) == ("settled", 0.8)
    assert operation["moved"] == {"publishRateInMsgs": {"broker-1": 1000}}
    html = (report[1] / "index.html").read_text()
    assert "twice &lt;as much&gt;" in html
    assert "msg/s published: broker-1 +1,000" in html


def test_certificates_are_held_against_what_was_in_force(figures: dict[str, Any]) -> None:
    """Something was certified in every period, and never too little."""
    assert [event["certificates_broken"] for event in figures["events"]] == [0] * len(STORY)


def test_a_good_run_ends_with_0_and_meets_its_conditions(
    report: tuple[ReportOutcome, Path], figures: dict[str, Any]
) -> None:
    """Nothing is left out, dropped or missing."""
    outcome, _ = report

    assert (outcome.warnings, outcome.missed, outcome.exit_code) == ((), (), 0)
    assert figures["input"]["left_out"] == []
    assert figures["headline"].startswith("orders held to 3,000 and 6,000 msg/s published within ")
    assert outcome.text.splitlines()[0] == f"cluster test: {figures['headline']}"
    assert len(outcome.text.splitlines()) < 30
    rows = set(outcome.text.splitlines()[1:]) - set(figures["enforcement"]["text"])
    assert max(map(len, rows)) < 120


def test_the_page_stands_alone(report: tuple[ReportOutcome, Path], figures: dict[str, Any]) -> None:
    """Headline, every chart and every definition; no address, script or style of others."""
    html = (report[1] / "index.html").read_text()

    assert figures["headline"] in html
    assert html.count('role="img"') == 4
    assert "prefers-color-scheme:dark" in html
    assert all(name in html for name in DEFINITIONS)
    assert not re.search(r"https?://|<script|<link|@import|src=", html)


def test_progress_counts_every_table_that_is_kept(report: tuple[ReportOutcome, Path]) -> None:
    """So it never says 12 of 11."""
    written = {path.name for path in (report[1] / "parquet").iterdir()}

    assert len(written - {OVERALL}) == KEPT_TABLES


def test_the_first_figure_that_fails_ends_the_report(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier ones that Spark computes for longer are interrupted, and later ones are not begun."""
    begun: list[str] = []
    interrupted = Event()

    def interrupt(_: SparkSession) -> list[str]:
        interrupted.set()
        return []

    def kept(_: DataFrame, name: str) -> DataFrame:
        begun.append(name)
        if name != "runs":
            assert interrupted.wait(60)
            raise RefusedInput("interrupted")
        raise RefusedInput("the disk is full")

    monkeypatch.setattr(SparkSession, "interruptAll", interrupt)
    tables = {table: nothing(spark, columns) for table, columns in SCHEMAS.items()}
    with pytest.raises(RefusedInput, match="the disk is full"):
        frames(tables, kept)
    assert set(begun) <= {"limits", "runs", "clock_skew", "report_ages"}


def test_clock_skew_is_bounded_by_reports_in_both_directions(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Three seconds of skew are found, with the delay of a report as the uncertainty."""
    cluster = RecordedCluster(limit=1000, place=tmp_path, skew_ns={"broker-2": 3 * 10**9})
    for broker in ("broker-1", "broker-2"):
        cluster.start(broker, demand=2000)
    cluster.run(5)
    cluster.write()

    (skew,) = clock_skew(open_recording(spark, tmp_path).tables["reports"]).collect()
    assert (skew["a"], skew["b"]) == ("broker-1", "broker-2")
    assert skew["skew_s"] == pytest.approx(3.0)
    assert skew["uncertainty_s"] == pytest.approx(0.002)


def test_what_may_mislead_is_warned_of(spark: SparkSession) -> None:
    """Every reason for which a report that was made still ends with 1."""
    recording = Recording(
        spark,
        directory=StorePlace("recorded"),
        cluster="test",
        tables={},
        rows={"admitted": 1, "configuration": 1, "lifecycle": 1, "limits": 1},
        left_out=("x.parquet: cannot be read", "y.parquet: cannot be read"),
    )
    collected = ReportData(
        events=[{"seconds_known": 90, "seconds_unknown": 10}],
        recorded=[{"rows_dropped": 5}, {"rows_dropped": 2}],
        clock_skew=[{"skew_s": -0.3}],
    )
    good = replace(recording, left_out=(), rows=dict.fromkeys(SCHEMAS, 1))

    assert warnings_of(recording, collected) == [
        "left out: x.parquet: cannot be read, and 1 more",
        "no row of table reports, membership: figures made of it are missing",
        "7 rows were dropped by recorders that could not write",
        "the clocks of two brokers are 0.30 s apart; seconds do not line up",
        "10 of 100 seconds were not wholly recorded",
    ]
    whole = ReportData(events=[{"seconds_known": 99, "seconds_unknown": 1}])
    assert warnings_of(good, whole) == []
    cut = replace(whole, left_out={"events": 1_200, "buckets": 5})
    assert warnings_of(good, cut) == [
        "1,200 more events are in parquet/events and are not held to conditions here"
    ]
    assert warnings_of(good, ReportData()) == [
        "no event: no limited group had a participant while something was recorded"
    ]


def test_the_report_says_that_brokers_own_limiters_held_the_limit(
    report: tuple[ReportOutcome, Path], figures: dict[str, Any]
) -> None:
    """Page, text and figures.json say that no gate did; beside it stands a broker that has one."""
    outcome, _ = report

    told = figures["enforcement"]
    assert told["brokers"] == [
        {"broker": "broker-1", "path": "native", "interval_s": 1},
        {"broker": "broker-2", "path": "gate", "interval_s": None},
    ]
    assert told["text"] == sentences(told["brokers"])
    for text in told["text"]:
        assert text in outcome.text
        assert escape(text) in outcome.page.path.read_text()


def test_the_report_shows_what_went_round_the_gates(
    report: tuple[ReportOutcome, Path], figures: dict[str, Any]
) -> None:
    """By namespace and class, of all brokers together, the most bytes first."""
    first, second = figures["round_the_gates"]

    assert (first["namespace"], first["monitoring_class"]) == ("shop/orders", "Publish")
    assert (first["messages"], first["bytes"]) == (3_600, 72_000)
    assert first["brokers"] == "broker-1, broker-2, broker-3"
    assert first["last"] - first["first"] == 10
    assert (second["monitoring_class"], second["messages"]) == ("Dispatch", 30)
    assert "<h2>Round the gates</h2>" in report[0].page.path.read_text()


@pytest.mark.verify
def test_another_limiter_is_shown_beside(spark: SparkSession, tmp_path: Path) -> None:
    """On the same page: the worst of every figure of both, and both curves of a group that both have."""
    ours = RecordedCluster(limit=1000, place=tmp_path / "recorded")
    other = RecordedCluster(limit=2000, place=tmp_path / "other", cluster="<pulsar>")
    for cluster in (ours, other):
        cluster.start("broker-1", demand=5000)
        cluster.run(12)
        cluster.write()

    outcome = make(
        open_recording(spark, tmp_path / "recorded"),
        tmp_path / "out",
        peer=open_recording(spark, tmp_path / "other"),
    )

    figures = json.loads(outcome.figures.path.read_text())
    html = outcome.page.path.read_text()
    assert figures["peer"]["cluster"] == "<pulsar>"
    assert [event["limit"] for event in figures["peer"]["events"]] == [2000]
    assert [event["limit"] for event in figures["events"]] == [1000]
    assert figures["overall"]["events"] == 1
    assert figures["overall"]["jain"] == min(event["jain"] for event in figures["events"])
    assert "Beside &lt;pulsar&gt;" in html
    assert html.count('role="img"') == 6
    worst = {
        row["cluster"]: row for row in pq.read_table(tmp_path / "out/parquet/overall").to_pylist()
    }
    assert worst["<pulsar>"]["jain"] == figures["peer"]["overall"]["jain"]
    assert worst["test"] == {"cluster": "test", **figures["overall"]}
    limits = pq.read_table(tmp_path / "out/peer/curves", columns=["limit"]).to_pylist()
    assert {row["limit"] for row in limits} == {2000}
    assert "<figcaption>peer/curves</figcaption>" in html


def test_a_broken_certificate_is_missed_unasked() -> None:
    """It is a promise, no statistic."""
    collected = ReportData(events=[{"certificates_broken": n} for n in (None, 0, 2, 1)])

    assert broken_certificates(collected) == [
        "3 seconds in which more was in force than a sidecar certified"
    ]
    assert broken_certificates(ReportData(events=[{"certificates_broken": 0}])) == []


def test_what_cannot_be_reported_on_ends_with_2(
    tmp_path: Path, story: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty directory, and a condition on a figure that does not exist; nothing is written."""
    empty, out = tmp_path / "empty", tmp_path / "out"
    empty.mkdir()

    assert main([str(empty), "--out", str(out)]) == 2
    assert "no row of table admitted and configuration" in capsys.readouterr().err
    assert main([str(story), "--out", str(out), "--fail-on", "speed>=1"]) == 2
    assert "'speed' is no figure" in capsys.readouterr().err
    assert not out.exists()


def test_a_damaged_file_is_refused(
    spark: SparkSession, story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A good footer over a page that is not what was written: no figures rather than wrong ones."""
    place = tmp_path / "recorded"
    shutil.copytree(story, place)
    path = next(place.glob("table=admitted/*/*/*.parquet"))
    group = pq.read_metadata(path).row_group(0)
    column = next(
        chunk
        for chunk in (group.column(number) for number in range(group.num_columns))
        if chunk.path_in_schema == "admitted"
    )
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + _length_after_dictionary(column) - 1] ^= 0xFF
    path.write_bytes(bytes(content))

    assert spark is not None
    assert main([str(place), "--out", str(tmp_path / "out")]) == 2
    assert "FAILED_READ_FILE" in capsys.readouterr().err
    assert not (tmp_path / "out/index.html").exists()


def _length_after_dictionary(column: Any) -> int:
    """Return the bytes of data pages in a column's chunk: its last byte is a value's, not a header's."""
    start = column.dictionary_page_offset or column.data_page_offset
    return int(column.total_compressed_size - (column.data_page_offset - start))
