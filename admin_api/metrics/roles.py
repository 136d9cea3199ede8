"""The metrics of roles: what their clients pass at this gate, and how long they wait.

There are none while no role is attached. The gate tells 1,000 roles apart, by group and class; further
ones, and those whose names no attachment could have, are the role ``(others)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.insight.model.gate_views import RoleView

_LABELS = ["role", "group", "monitoring_class"]


def role_families(found: Iterable[RoleView]) -> Iterator[Metric]:
    """Yield the families of roles; the group is empty for roles that none limits."""
    participants = GaugeMetricFamily(
        "pulsar_quota_role_participants",
        "Producers or consumers connected by clients of a role.",
        labels=_LABELS,
    )
    messages = CounterMetricFamily(
        "pulsar_quota_role_messages", "Messages of a role that passed the gate.", labels=_LABELS
    )
    size = CounterMetricFamily(
        "pulsar_quota_role_bytes",
        "Bytes of a role that passed the gate.",
        labels=_LABELS,
        unit="bytes",
    )
    throttled = CounterMetricFamily(
        "pulsar_quota_role_throttled_seconds",
        "Time in which at least one producer or consumer of a role waited, for any limit.",
        labels=_LABELS,
        unit="seconds",
    )
    for each in found:
        labels = [each.role, each.group, each.monitoring_class.value]
        participants.add_metric(labels, each.participants)
        messages.add_metric(labels, each.messages)
        size.add_metric(labels, each.bytes)
        throttled.add_metric(labels, each.held_ns / NANOS_PER_SECOND)
    yield from (participants, messages, size, throttled)
