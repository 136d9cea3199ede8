"""A recorded run without a cluster: real cores on a fake bus and clock, recorded by the real recorder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from coordinator.adapters.recorder.files import RecordedFiles
from coordinator.adapters.recorder.recorder import ParquetRecorder
from coordinator.adapters.recorder.rows import EnforcedBy
from coordinator.adapters.recorder.writer import RecorderBounds
from coordinator.core.events import Event, UsageReportReceived
from coordinator.core.instructions import PublishUsageReport, SetLocalLimits
from coordinator.core.model import Dimension, MonitoringClass, ResourceGroup
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.operations import Operation, OperationStage
from coordinator.insight.model.reconciliation_views import EscapedTraffic
from coordinator.wire import reports
from tests.core.cluster import Cluster

START_NS = 1_800_000_000_000_000_000
DELAY_NS = 2_000_000
"""The delay of a report, by the clocks of the recording."""


@dataclass
class RecordedCluster(Cluster):
    """A cluster whose every sidecar is recorded, as the runner does it."""

    place: Path | str = ""
    cluster: str = "test"
    #: Added to a broker's wall clock.
    skew_ns: dict[str, int] = field(default_factory=dict)
    recorders: dict[str, ParquetRecorder] = field(default_factory=dict)
    #: Who holds traffic back at a broker; one that is not among them does not say.
    enforced: dict[str, EnforcedBy] = field(default_factory=dict)
    configuration_version: int = 1
    _runs: int = 0
    _delayed: int = 0

    def group(self) -> ResourceGroup:
        return replace(super().group(), configuration_version=self.configuration_version)

    def start(self, broker: str, demand: int = 0) -> CoordinatorState:
        self._runs += 1
        run = f"run-{self._runs}"
        self.recorders[broker] = ParquetRecorder(
            RecordedFiles(
                str(self.place),
                broker=broker,
                run=run,
                retention_s=1e9,
                bytes_max=2**40,
            ),
            cluster=self.cluster,
            broker=broker,
            run=run,
            bounds=RecorderBounds(file_rows=10**6, file_s=3600, buffer_rows=10**6),
            wall_ns=lambda: START_NS + self.now_ns + self._delayed + self.skew_ns.get(broker, 0),
        )
        self.recorders[broker].enforced_by = lambda: self.enforced.get(broker)
        return super().start(broker, demand)

    def send(self, broker: str, event: Event) -> None:
        recorder, state = self.recorders[broker], self.states[broker]
        if isinstance(event, UsageReportReceived):
            self._delayed = DELAY_NS
            size = len(reports.encode(event.report))
            recorder.report_received(event.report, size, self.now_ns)
            self._delayed = 0
        instructions = state.handle(event, self.now_ns)
        for instruction in instructions:
            match instruction:
                case PublishUsageReport(report):
                    recorder.report_sent(report, len(reports.encode(report)), self.now_ns)
                case SetLocalLimits(group, _):
                    decisions = {d: state.decider.decisions[group, d] for d in Dimension}
                    recorder.limits_set(group, decisions, self.now_ns)
                case _:
                    pass
        recorder.handled(event, state, self.now_ns)
        self._carry_out(broker, instructions)

    def write(self) -> None:
        """Write everything that was recorded."""
        for recorder in self.recorders.values():
            recorder.start()
            recorder.close()

    def crash(self, broker: str) -> None:
        """A sidecar dies; its file is finished up to now, what comes later is not recorded."""
        recorder = self.recorders.pop(broker)
        recorder.start()
        recorder.close()
        self.kill(broker)


def record_operation(cluster: RecordedCluster, stage: OperationStage) -> None:
    """The change of the limit, as the sidecar that took it follows it."""
    operation = Operation(
        1, "orders", 2, "groups/orders", "twice <as much>", "admin", "broker-2",
        stage=stage,
        settle_ns=800_000_000 if stage is OperationStage.SETTLED else None,
        moved={Dimension.PUBLISH_MESSAGES: {"broker-1": 1000}} if stage is OperationStage.SETTLED else {},
    )  # fmt: skip
    at_ms = (START_NS + 40_000_000_000) // 1_000_000
    cluster.recorders["broker-2"].operation_changed(operation, at_ms, cluster.now_ns)


def record_a_story(place: Path | str) -> None:
    """Two brokers start, a third joins, the limit doubles, the first dies and comes back.

    The first broker's own limiter holds the limit, a gate at the second; traffic goes round the gates.
    """
    enforced = {"broker-1": EnforcedBy("native", 1), "broker-2": EnforcedBy("gate")}
    cluster = RecordedCluster(limit=3000, place=place, enforced=enforced)
    cluster.start("broker-1", demand=5000)
    cluster.start("broker-2", demand=2500)
    cluster.start("broker-3")
    cluster.run(20.3)
    cluster.want("broker-3", 5000)
    cluster.run(20)
    cluster.configuration_version += 1
    cluster.set_limit(6000)
    record_operation(cluster, OperationStage.ACCEPTED)
    cluster.run(20)
    record_operation(cluster, OperationStage.SETTLED)
    cluster.crash("broker-1")
    cluster.run(4)
    cluster.end_session("broker-1")
    cluster.run(16)
    cluster.start("broker-1", demand=5000)
    cluster.run(20)
    of_orders = "shop/orders", ("orders",)
    published = EscapedTraffic(*of_orders, MonitoringClass.PUBLISH, 1_200, 24_000)
    dispatched = EscapedTraffic(*of_orders, MonitoringClass.DISPATCH, 10, 200)
    for recorder in cluster.recorders.values():
        recorder.escaped([dispatched, published], 10 * 10**9, cluster.now_ns)
    cluster.write()
