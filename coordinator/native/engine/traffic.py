"""The broker's counts of a native group, as the core and the recorder read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.core.model import MonitoringClass, TrafficKey
from coordinator.core.traffic import NamespaceKey, NamespaceTraffic, Traffic
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.group import NativeGroup
from coordinator.native.engine.sets import GroupSet


def of_groups(natives: Iterable[NativeGroup], now_ns: int) -> tuple[Traffic, ...]:
    """Return the traffic of every group with participants or news since the last call.

    A native group stands for several groups: what passed counts for all, what was held back only for
    those whose limit is its part.
    """
    sums: dict[TrafficKey, list[int]] = {}
    for native in natives:
        for monitoring_class, row in native.taken(now_ns):
            is_publish = monitoring_class is MonitoringClass.PUBLISH
            parts = native.parts if is_publish else native.dispatch_parts
            for group in native.groups:
                total = sums.setdefault((group, monitoring_class), [0] * 6)
                bound = [not part or part.binding in ("", group) for part in parts]
                for index in (0, 1, 4, 5):
                    total[index] += row[index]
                for index in (2, 3):
                    total[index] = max(total[index], row[index] * bound[index - 2])
    return tuple(
        Traffic(group, monitoring_class, *total)
        for (group, monitoring_class), total in sums.items()
        if any(total)
    )


def of_namespaces(
    counts: Mapping[str, NamespaceCount], sets: Mapping[str, GroupSet]
) -> tuple[NamespaceTraffic, ...]:
    """Return the traffic of each namespace that had any, with the groups that it counts against."""
    rows = []
    for namespace, count in counts.items():
        tenant, _, local = namespace.partition("/")
        groups = sets.get(namespace, ())
        for monitoring_class, messages, size in (
            (MonitoringClass.PUBLISH, count.messages, count.bytes),
            (MonitoringClass.DISPATCH, count.out_messages, count.out_bytes),
        ):
            if messages or size:
                key = NamespaceKey(tenant, local, groups, monitoring_class)
                rows.append(NamespaceTraffic(key, messages, size))
    return tuple(rows)
