"""All metrics for Prometheus, read at the moment of the scrape and not kept.

A scrape must not delay rounds, on whose loop it is gathered: it reads group after group and lets all
other tasks run in between. Nor may it delay other requests: a thread makes the text. Units are base units
and part of the name; a rate without a limit has no series, because no number would be true. Cardinality
is bounded: a series per group, class or dimension of this broker only (every sidecar reports its own
part), for the first `MAX_GROUPS` groups by name; the number of the other groups is a metric itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from prometheus_client import exposition
from prometheus_client.core import (
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from admin_api.backend import AdminBackend, GateMeter
from admin_api.metrics.backlog import backlog_families
from admin_api.metrics.families import FamilyTable, Texts, counter, figures, gauge, labelled_counter
from admin_api.metrics.gate import gate_families, slowness_families
from admin_api.metrics.groups import GroupFamilies
from admin_api.metrics.native import native_families
from admin_api.metrics.reconciliation import reconciliation_families
from admin_api.metrics.roles import role_families
from admin_api.metrics.trees import add_tree, tree_families
from coordinator.core.events import ConnectionState
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import NANOS_PER_SECOND, Dimension
from coordinator.insight.model.conditions import ConditionKind, Conditions
from coordinator.insight.model.gate_views import SLOW_AFTER_S
from coordinator.insight.model.views import HealthView
from coordinator.insight.shell.views import SidecarViews
from coordinator.ports import BusHealth, Catalogue, RecorderHealth
from coordinator.runtime.release import RELEASE

MAX_GROUPS = 1_000
"""Groups with series of their own, about 25 each."""

_GATE_WITHIN_S: Final = 1.5 * SLOW_AFTER_S
"""The longest wait for the gate's own figures: by then it is known to be slow."""

_BUS: Final[Texts] = {
    "sent": "Reports sent, counted per bus topic.",
    "received": "Payloads received, the own ones included.",
    "dropped": (
        "Reports not sent while a bus topic was not connected, the oldest of a full queue, and what came "
        "with names or properties above 256 KiB."
    ),
    "clients_ended": "Ends of the process that reads the bus topics; another one was started.",
}
_RECORDER_GAUGES: Final[Texts] = {"rows_waiting": "Rows that wait to be written."}
_RECORDER_COUNTERS: Final[Texts] = {
    "failures": "Attempts to write rows that failed.",
    "rows_written": "Rows written to files.",
    "rows_dropped": "Rows dropped because the buffer was full.",
    "files_written": "Files written.",
}


class _Collected(Collector):
    """Families that were gathered already, in the form that the encoders need."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


async def expose(backend: AdminBackend, accept: str) -> tuple[bytes, str]:
    """Return all metrics as text, and its media type: OpenMetrics where it is accepted."""
    collected = _Collected(await backend.coordinator_loop.run(gather(backend)))
    if "application/openmetrics-text" in accept:
        body = await asyncio.to_thread(openmetrics.generate_latest, collected)
        return body, openmetrics.CONTENT_TYPE_LATEST
    body = await asyncio.to_thread(exposition.generate_latest, collected)
    return body, exposition.CONTENT_TYPE_PLAIN_0_0_4


async def gather(backend: AdminBackend) -> list[Metric]:
    """Read all metrics."""
    catalogue = backend.views.catalogue()
    names = sorted(backend.views.defined())
    groups = GroupFamilies(backend.views, backend.views.health().broker)
    for name in names[:MAX_GROUPS]:
        groups.add(name)
        await asyncio.sleep(0)
    trees = await _trees(backend.views)
    native = backend.native_state()
    return [
        *_sidecar(backend.views.health()),
        gauge("tasks", "Tasks of the coordinator's event loop.", len(asyncio.all_tasks())),
        *_store(catalogue, backend.views.connection(), left_out=len(names[MAX_GROUPS:])),
        *_bus(backend.bus.health()),
        *_recorder(backend.views.recording()),
        _conditions(backend.history.conditions),
        labelled_counter(
            "api_refused",
            "Requests and connections that the admin API refused before reading their subject.",
            "reason",
            backend.refusals.counts(),
        ),
        *await _gate(backend.gate),
        gauge(
            "partitions_near_limit",
            "Partitions of which a second of the last minute used more than 80 % of their limit.",
            0 if backend.partitions is None else len(backend.partitions.near_limit()),
        ),
        *(() if native is None else native_families(native)),
        *(
            ()
            if backend.reconciling is None
            else reconciliation_families(backend.reconciling.view())
        ),
        *groups,
        *trees,
        *(() if backend.backlogs is None else await backlog_families(backend.backlogs)),
    ]


async def _gate(gate: GateMeter) -> list[Metric]:
    """Ask the gate, unless it is slow: no scrape waits for it as long as its clients do."""
    families: list[Metric] = []
    if not gate.slowness().is_slow:
        with suppress(TimeoutError):
            async with asyncio.timeout(_GATE_WITHIN_S):
                families += gate_families(
                    await gate.figures(),
                    await gate.holds(),
                    await gate.limits(),
                    await gate.delayed(),
                    await gate.unknown_topics(),
                )
                families += role_families(await gate.role_traffic())
    return [*slowness_families(gate.slowness()), *families]


async def _trees(views: SidecarViews) -> FamilyTable:
    found, rows = tree_families(), 0
    for root in views.roots():
        for dimension in Dimension:
            tree = views.tree(root, dimension)
            if tree is not None:
                rows += len(tree.groups)
                add_tree(found, tree)
            await asyncio.sleep(0)
        if rows >= MAX_GROUPS * len(Dimension):
            break
    return found


def _sidecar(health: HealthView) -> Iterator[Metric]:
    yield InfoMetricFamily(
        "pulsar_quota_sidecar",
        "The sidecar that answers.",
        value={"version": RELEASE, "broker": health.broker},
    )
    yield StateSetMetricFamily(
        "pulsar_quota_lifecycle",
        "The lifecycle state of the sidecar.",
        value={state.value: state is health.state for state in Lifecycle},
    )
    yield StateSetMetricFamily(
        "pulsar_quota_degradation",
        "Why the sidecar is DEGRADED; several can hold at once.",
        value={degradation.name: degradation in health.degradations for degradation in Degradation},
    )
    yield gauge("ready", "1 when limits follow from what is known of all members.", health.ready)
    yield gauge(
        "members", "Live sidecars that this one knows, itself included.", len(health.members)
    )
    yield counter("rounds", "Rounds closed since the start.", health.round)
    ages = GaugeMetricFamily(
        "pulsar_quota_report_age_seconds",
        "Time since a member's last report arrived; no series before the first.",
        labels=["peer"],
        unit="seconds",
    )
    for member in health.members:
        if member.report_age_ns is not None and member.broker != health.broker:
            ages.add_metric([member.broker], member.report_age_ns / NANOS_PER_SECOND)
    yield ages
    yield _disagreements(health)
    yield labelled_counter(
        "announcements_capped",
        "Times that a member announced more than twice its target and was counted with an equal part.",
        "peer",
        health.announcements_capped,
    )
    yield labelled_counter(
        "foreign_reports",
        "Reports in a member's name that it did not send; all of them were dropped.",
        "peer",
        # From 0 on, or the first one would not show as an increase.
        {member.broker: 0 for member in health.members} | dict(health.foreign_reports),
    )
    yield labelled_counter(
        "task_failures",
        "Failures of parts of this sidecar that go on all the same.",
        "task",
        {task.task: task.failures for task in health.failed_tasks},
    )
    yield labelled_counter(
        "reports_dropped", "Reports that were not believed.", "reason", health.reports_dropped
    )


def _disagreements(health: HealthView) -> Metric:
    family = GaugeMetricFamily(
        "pulsar_quota_view_disagreement_seconds",
        "Time for which a member has used other definitions, members or usage than this sidecar; "
        "no series while it agrees.",
        labels=["peer", "matter"],
        unit="seconds",
    )
    for found in health.disagreements:
        family.add_metric([found.peer, found.matter.value], found.age_ns / NANOS_PER_SECOND)
    return family


def _store(
    catalogue: Catalogue, connection: ConnectionState | None, *, left_out: int
) -> Iterator[Metric]:
    yield StateSetMetricFamily(
        "pulsar_quota_zookeeper",
        "The connection to ZooKeeper; all 0 before the first.",
        value={state.value: state is connection for state in ConnectionState},
    )
    yield gauge("groups", "Resource groups in the store.", len(catalogue.groups))
    yield gauge(
        "groups_left_out",
        f"Groups without series: those after the first {MAX_GROUPS} by name.",
        left_out,
    )
    yield gauge(
        "catalogue_faults", "Entries of the store that cannot be read.", len(catalogue.faults)
    )


def _bus(health: BusHealth) -> Iterator[Metric]:
    connected = GaugeMetricFamily(
        "pulsar_quota_bus_connected", "1 when the bus topic is connected.", labels=["topic"]
    )
    for topic, is_connected in sorted(health.connected.items()):
        connected.add_metric([topic], is_connected)
    yield connected
    yield from figures("bus_", health, {}, _BUS)


def _recorder(health: RecorderHealth | None) -> Iterator[Metric]:
    recording = GaugeMetricFamily(
        "pulsar_quota_recording",
        "1 while rows can be written, 0 while they cannot; no series = recording is off.",
    )
    if health is not None:
        recording.add_metric([], health.recording)
    yield recording
    told = health or RecorderHealth(recording=False)
    yield from figures("recorder_", told, _RECORDER_GAUGES, _RECORDER_COUNTERS)
    yield counter("recorder_written_bytes", "Bytes of the files written.", told.bytes_written)


def _conditions(conditions: Conditions) -> Metric:
    family = GaugeMetricFamily(
        "pulsar_quota_condition",
        "Conditions of each kind that hold now; /quota/v1/conditions names them.",
        labels=["condition"],
    )
    for kind in ConditionKind:
        family.add_metric([kind.value], conditions.counts.get(kind, 0))
    return family
