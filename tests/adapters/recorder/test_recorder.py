"""The recorder writes events as rows of files, whatever the place does, and delays no caller."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from coordinator.adapters.recorder.files import RecordedFiles
from coordinator.adapters.recorder.rows import EnforcedBy
from coordinator.adapters.recorder.tables import RecordedTable
from coordinator.adapters.recorder.writer import RecorderBounds
from coordinator.core.allocation.splitting import Binding
from coordinator.core.decisions.decision import Decision
from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    ConnectionState,
    DrainCompleted,
    DrainRequested,
    Event,
    GroupsChanged,
    MembersChanged,
    MembershipJoined,
    Tick,
    TrafficCounted,
)
from coordinator.core.model import (
    Dimension,
    GroupUsage,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.insight.model.operations import Operation, OperationStage
from coordinator.insight.model.reconciliation_views import EscapedTraffic
from tests.adapters.recorder.world import START_NS, Recording, eventually, rows_of

PUBLISH = MonitoringClass.PUBLISH
ORDERS = ResourceGroup("orders", Rates(publish_messages=3000), configuration_version=7)


def report(broker: str, sequence: int = 1, *, groups: bool = True) -> UsageReport:
    """A report of one group, or of none."""
    usage = Usage(messages=10, bytes=20, messages_demand=None, messages_limit=5, participants=1)
    entries = (GroupUsage("orders", 7, {PUBLISH: usage}),) if groups else ()
    return UsageReport(broker, 3, sequence, 10**9, entries, leaving=not groups)


class Core:
    """A core whose events the recorder is told of, as the runner does."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.state = CoordinatorState(CoreSettings(broker=recording.broker))

    def send(self, *events: Event) -> None:
        for event in events:
            now_ns = self.recording.clock.now_ns()
            self.state.handle(event, now_ns)
            self.recording.recorder.handled(event, self.state, now_ns)

    def become_active(self) -> None:
        member = Member(self.recording.broker, 3)
        self.send(
            ConnectionChanged(ConnectionState.CONNECTED),
            GroupsChanged((ORDERS,)),
            BrokerAvailabilityChanged(answering=True),
            MembershipJoined(3),
            MembersChanged((member,)),
        )

    def count(self, seconds: float, messages: int, participants: int = 1) -> None:
        self.recording.clock.advance(seconds)
        self.send(
            TrafficCounted((Traffic("orders", PUBLISH, messages, participants=participants),)),
            Tick(),
        )


class FailingFiles(RecordedFiles):
    """Files on a disk that is full when the test says so."""

    full = False

    def write(self, table: RecordedTable, date: str, content: pa.Table) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(table, date, content)


@pytest.fixture
def failing(tmp_path: Path) -> FailingFiles:
    """Files of the same run as the recorder's."""
    return FailingFiles(
        str(tmp_path),
        broker="broker-1",
        run="run-1",
        retention_s=1e9,
        bytes_max=2**40,
    )


def test_an_operation_is_a_row_per_stage(tmp_path: Path) -> None:
    """The row has the author, the change, the time it took, and the brokers that gained."""
    asked = Operation(7, "orders", 3, "groups/orders", "more", "admin", "broker-1")
    settled = replace(
        asked,
        stage=OperationStage.SETTLED,
        settle_ns=1_250_000_999,
        residual_permille=12,
        moved={Dimension.PUBLISH_MESSAGES: {"broker-2": -5, "broker-1": 9}},
    )
    with Recording(tmp_path) as recording:
        recording.recorder.operation_changed(asked, START_NS // 1_000_000, 1)
        recording.recorder.operation_changed(settled, START_NS // 1_000_000, 2)

    first, last = recording.rows(RecordedTable.OPERATIONS)
    assert (first["operation"], first["stage"], first["settle_us"]) == (7, "accepted", None)
    assert (first["text"], first["actor"], first["moved"]) == ("more", "admin", [])
    assert round(first["accepted"].timestamp() * 1e9) == START_NS
    assert (last["stage"], last["settle_us"], last["residual_permille"]) == (
        "settled", 1_250_000, 12,
    )  # fmt: skip
    assert last["moved"] == [("publishRateInMsgs", [("broker-1", 9), ("broker-2", -5)])]


def test_members_take_turns_at_certifying(tmp_path: Path) -> None:
    """A certificate a second of each limited group with traffic, by one of the members."""
    with Recording(tmp_path) as recording:
        core = Core(recording)
        core.become_active()
        for _ in range(7):
            core.count(1, 100)
        core.send(MembersChanged((Member("broker-1", 3), Member("broker-2", 1))))
        for _ in range(6):
            core.count(1, 100)

    rows = recording.rows(RecordedTable.CERTIFICATES)
    seconds = [round(row["second"].timestamp()) - START_NS // 10**9 for row in rows]
    assert seconds == [1, 2, 3, 4, 5, 6, 8, 10, 12]
    assert {(row["resource_group"], row["dimension"], row["cluster_limit"]) for row in rows} == {
        ("orders", "publishRateInMsgs", 3000)
    }
    assert {row["holders"] for row in rows[:6]} == {1}
    newest = core.state.certificate(
        ORDERS, Dimension.PUBLISH_MESSAGES, recording.clock.monotonic_ns
    )
    assert (rows[-1]["most"], rows[-1]["holders"]) == (newest.most, len(newest.holders))


def test_a_sent_and_a_received_report_are_rows(tmp_path: Path) -> None:
    """With the size on the wire; null where demand is unbounded or a limit is missing."""
    with Recording(tmp_path) as recording:
        recording.recorder.report_sent(report("broker-1"), 64, 1)
        recording.recorder.report_received(report("broker-2", sequence=9), 65, 2)
        recording.recorder.report_received(report("broker-1"), 64, 3)
        recording.recorder.report_received(report("broker-2", groups=False), 12, 4)

    sent, received, bare = recording.rows(RecordedTable.REPORTS)
    assert (sent["direction"], sent["sender"], sent["report_bytes"]) == ("sent", "broker-1", 64)
    assert (received["direction"], received["sender"]) == ("received", "broker-2")
    assert (received["sequence"], received["sender_incarnation"]) == (9, 3)
    assert (sent["resource_group"], sent["monitoring_class"]) == ("orders", "Publish")
    assert (sent["messages"], sent["messages_demand"], sent["bytes_demand"]) == (10, None, 0)
    assert (sent["messages_limit"], sent["bytes_limit"]) == (5, None)
    assert (bare["resource_group"], bare["report_rows"], bare["leaving"]) == (None, 1, True)


def test_both_clocks_and_the_sidecar_stand_in_every_row(tmp_path: Path) -> None:
    """Wall clock in microseconds, the monotonic one in nanoseconds, incarnation once there is one."""
    with Recording(tmp_path) as recording:
        Core(recording).become_active()
        recording.recorder.report_sent(report("broker-1"), 64, recording.clock.now_ns())

    (row,) = recording.rows(RecordedTable.REPORTS)
    assert row["ts"].timestamp() * 1e9 == START_NS
    assert row["monotonic_ns"] == 5_000
    assert (row["cluster"], row["broker"], row["run"]) == ("test", "broker-1", "run-1")
    assert row["incarnation"] == 3
    assert recording.rows(RecordedTable.LIFECYCLE)[0]["incarnation"] is None


def test_a_decision_is_recorded_with_what_it_was_made_from(tmp_path: Path) -> None:
    """The law's answer, every claim and every limit in force; unlimited dimensions are left out."""
    with Recording(tmp_path) as recording:
        core = Core(recording)
        core.become_active()
        core.count(1.1, 100)
        core.count(1.1, 100)
        decisions = {
            dimension: core.state.decider.decisions["orders", dimension] for dimension in Dimension
        }
        recording.recorder.limits_set("orders", decisions, 77)

    (row,) = recording.rows(RecordedTable.LIMITS)
    decision = decisions[Dimension.PUBLISH_MESSAGES]
    assert decision.split is not None
    assert row["dimension"] == "publishRateInMsgs"
    assert row["local_limit"] == decision.local_limit
    assert row["binding"] == decision.binding.value
    assert (row["cluster_limit"], row["reserve"]) == (3000, decision.split.reserve)
    assert row["target"] == decision.split.targets["broker-1"]
    assert dict(row["claims"]) == {"broker-1": decision.split.claims["broker-1"].wants}
    assert dict(row["in_force"]) == dict(decision.split.in_force)


def test_a_decision_without_the_law_has_no_inputs(tmp_path: Path) -> None:
    """A reserve is a part of the limit and nothing else."""
    with Recording(tmp_path) as recording:
        decision = Decision(15, Binding.RESERVE, 1, 5)
        recording.recorder.limits_set("orders", {Dimension.PUBLISH_MESSAGES: decision}, 1)

    (row,) = recording.rows(RecordedTable.LIMITS)
    assert (row["local_limit"], row["binding"], row["claims"]) == (15, "reserve", None)


def test_every_second_has_its_counts_and_a_sign_of_life(tmp_path: Path) -> None:
    """Messages and bytes, the local limit in force, zero included."""
    with Recording(tmp_path) as recording:
        core = Core(recording)
        core.become_active()
        core.send(TrafficCounted(()))
        for _ in range(20):
            core.count(0.05, 5)
        for _ in range(21):
            core.count(0.05, 0)

    rows = recording.rows(RecordedTable.ADMITTED)
    assert [
        (row["second"].timestamp() - START_NS / 1e9, row["dimension"], row["admitted"])
        for row in rows
    ] == [
        (0, "publishRateInMsgs", 100),
        (0, "publishRateInBytes", 0),
        (1, "publishRateInMsgs", 0),
        (1, "publishRateInBytes", 0),
    ]
    assert all(row["observed_us"] == 1_000_000 for row in rows)
    assert rows[2]["local_limit"] == core.state.limits()["orders"].publish_messages
    alive = [row for row in recording.rows(RecordedTable.LIFECYCLE) if row["cause"] == "alive"]
    assert [row["second"].timestamp() - START_NS / 1e9 for row in alive] == [0, 1]


def test_who_holds_traffic_back_is_recorded_as_it_changes_and_once_a_minute(tmp_path: Path) -> None:
    """Files are removed by age, and a report of the last hour must know it as well."""
    known = [EnforcedBy("native")]
    with Recording(tmp_path) as recording:
        recording.recorder.enforced_by = lambda: known[-1]
        core = Core(recording)
        core.become_active()
        core.send(TrafficCounted(()))
        for second in range(62):
            if second == 2:
                known.append(EnforcedBy("native", interval_s=5))
            core.count(1.0, 5)

    rows = recording.rows(RecordedTable.ENFORCEMENT)
    assert [(row["path"], row["interval_s"]) for row in rows] == [
        ("native", None),
        ("native", 5),
        ("native", 5),
    ]


def test_members_definitions_and_states_are_recorded_as_they_change(tmp_path: Path) -> None:
    """They are not recorded without a change."""
    with Recording(tmp_path) as recording:
        core = Core(recording)
        core.become_active()
        core.send(MembersChanged((Member("broker-1", 3), Member("broker-2", 4))))
        core.send(MembersChanged((Member("broker-1", 3), Member("broker-2", 5))))
        core.send(MembersChanged((Member("broker-1", 3),)), GroupsChanged(()))
        core.send(DrainRequested(), DrainCompleted())

    assert [
        (row["member"], row["member_incarnation"], row["change"])
        for row in recording.rows(RecordedTable.MEMBERSHIP)
    ] == [
        ("broker-1", 3, "present"),
        ("broker-2", 4, "present"),
        ("broker-2", 4, "gone"),
        ("broker-2", 5, "present"),
        ("broker-2", 5, "gone"),
    ]
    assert [
        (row["resource_group"], row["configuration_version"], row["publish_messages"], row["law"])
        for row in recording.rows(RecordedTable.CONFIGURATION)
    ] == [("orders", 7, 3000, "max-min"), ("orders", None, None, None)]
    states = [row["state"] for row in recording.rows(RecordedTable.LIFECYCLE)]
    assert states[:2] == ["STARTING", "LEARNING"]
    assert states[-2:] == ["DRAINING", "STOPPED"]


@pytest.mark.parametrize(
    ("bounds", "rows"),
    [(RecorderBounds(file_rows=100, file_s=3600), 100), (RecorderBounds(file_s=0.05), 1)],
    ids=["by number", "by age"],
)
def test_rows_become_a_file(tmp_path: Path, bounds: RecorderBounds, rows: int) -> None:
    """Long before they are old, or however few they are."""
    with Recording(tmp_path, bounds) as recording:
        for number in range(rows):
            recording.recorder.report_sent(report("broker-1", number + 1), 64, number)
        eventually(lambda: recording.recorder.health().rows_written == rows, "a file")
        assert recording.recorder.health().files_written == 1
        assert len(recording.rows(RecordedTable.REPORTS)) == rows


def test_a_file_holds_one_day(tmp_path: Path) -> None:
    """Midnight UTC ends it."""
    with Recording(tmp_path, RecorderBounds(file_s=3600)) as recording:
        for _ in range(2):
            recording.recorder.report_sent(report("broker-1"), 64, 1)
            recording.clock.advance(86_400)

    assert sorted(path.name for path in (tmp_path / "table=reports/version=1").iterdir()) == [
        "date=2027-01-15",
        "date=2027-01-16",
    ]


def test_a_full_disk_stops_recording_and_it_resumes_by_itself(
    tmp_path: Path, failing: FailingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said once each way; what found room in memory is written, what did not is counted."""
    monkeypatch.setattr("coordinator.adapters.recorder.writer._RETRY_S", 0.02)
    failing.full = True
    bounds = RecorderBounds(file_s=0.02, buffer_rows=50)
    with capture_logs() as logs, Recording(tmp_path, bounds, files=failing) as recording:
        for number in range(60):
            recording.recorder.report_sent(report("broker-1", number + 1), 64, number)
        eventually(lambda: recording.recorder.health().failures >= 3, "several attempts")
        full = recording.recorder.health()
        failing.full = False
        eventually(lambda: recording.recorder.health().recording, "resumed")

    assert not full.recording
    assert "No space left" in full.reason
    assert (full.rows_waiting, full.rows_dropped, full.rows_written) == (50, 10, 0)
    assert [row["sequence"] for row in recording.rows(RecordedTable.REPORTS)] == list(range(1, 51))
    assert recording.recorder.health().rows_waiting == 0
    said = [log["event"] for log in logs]
    assert said == ["recording stopped", "recording resumed"]


def test_what_was_dropped_is_recorded(tmp_path: Path, failing: FailingFiles) -> None:
    """A report can say which seconds it does not know."""
    failing.full = True
    bounds = RecorderBounds(file_s=3600, buffer_rows=5)
    recording = Recording(tmp_path, bounds, files=failing)
    for number in range(8):
        recording.recorder.report_sent(report("broker-1", number + 1), 64, number)
    failing.full = False
    recording.recorder.start()
    recording.recorder.close()
    with Recording(tmp_path, bounds, run="run-2") as second:
        second.recorder._writer._health = recording.recorder.health()
        core = Core(second)
        core.send(ConnectionChanged(ConnectionState.CONNECTED))

    last = second.rows(RecordedTable.LIFECYCLE)[-1]
    assert (last["run"], last["rows_dropped"]) == ("run-2", 3)


def test_a_value_that_fits_no_column_costs_its_batch_and_no_more(tmp_path: Path) -> None:
    """It is counted as dropped, and recording goes on."""
    with Recording(tmp_path, RecorderBounds(file_s=0.02)) as recording:
        recording.recorder.report_sent(report("broker-1", sequence=2**70), 64, 1)
        eventually(lambda: recording.recorder.health().rows_dropped == 1, "dropped")
        recording.recorder.report_sent(report("broker-1", sequence=2), 64, 2)

    assert [row["sequence"] for row in recording.rows(RecordedTable.REPORTS)] == [2]


def test_a_place_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    """Recording a row takes no longer while a file is being written."""
    release: list[Callable[[], None]] = []

    class Hanging(RecordedFiles):
        def write(self, *_: Any) -> int:
            release.append(lambda: None)
            eventually(lambda: len(release) > 1, "the test ended the wait")
            return 0

    files = Hanging(str(tmp_path), broker="broker-1", run="r", retention_s=1e9, bytes_max=2**40)
    with Recording(tmp_path, RecorderBounds(file_s=0.01), files=files) as recording:
        recording.recorder.report_sent(report("broker-1"), 64, 1)
        eventually(lambda: bool(release), "the file is being written")
        for number in range(1000):
            recording.recorder.report_sent(report("broker-1", number + 2), 64, number)
        assert recording.recorder.health().rows_waiting == 1001
        assert recording.recorder.health().files_written == 0
        release.append(lambda: None)


def test_two_runs_share_a_place(tmp_path: Path) -> None:
    """No run touches a file of another."""
    for run in ("run-1", "run-2"):
        with Recording(tmp_path, run=run) as recording:
            recording.recorder.report_sent(report("broker-1"), 64, 1)

    assert [row["run"] for row in rows_of(tmp_path, RecordedTable.REPORTS)] == ["run-1", "run-2"]


@pytest.mark.slow
def test_many_rows_are_written_while_others_arrive(tmp_path: Path) -> None:
    """None is lost, doubled or out of its run's order."""
    bounds = RecorderBounds(file_rows=5_000, file_s=0.05, buffer_rows=10**6)
    with Recording(tmp_path, bounds) as recording:
        for number in range(40_000):
            recording.recorder.report_sent(report("broker-1", number + 1), 64, number)
            if number % 10_000 == 0:
                time.sleep(0.06)

    assert [row["sequence"] for row in recording.rows(RecordedTable.REPORTS)] == list(
        range(1, 40_001)
    )
    assert recording.recorder.health().rows_written == 40_000


def test_traffic_round_the_gate_is_recorded_with_its_class(tmp_path: Path) -> None:
    """One row per namespace, over the time that it was told in."""
    recording = Recording(tmp_path)
    told = EscapedTraffic(
        "shop/orders", ("orders", "shop"), MonitoringClass.DISPATCH, 1_200, 24_000
    )
    with recording:
        recording.recorder.escaped([told], 60 * 10**9, recording.clock.now_ns())

    (row,) = recording.rows(RecordedTable.ESCAPED)
    assert (row["tenant"], row["namespace"], row["resource_groups"]) == (
        "shop",
        "orders",
        ["orders", "shop"],
    )
    assert (row["monitoring_class"], row["messages"], row["bytes"]) == ("Dispatch", 1_200, 24_000)
    assert row["observed_us"] == 60 * 10**6
    assert row["ts"] - row["since"] == timedelta(seconds=60)
