"""The metrics of enforcement by the broker's own limiter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from admin_api.metrics.families import FamilyTable, Texts, counter, figures, gauge
from coordinator.core.model import Unit
from coordinator.native.engine.views import NativeState

_GAUGES: Final[Texts] = {
    "connected": "1 when entries can be written to Pulsar's topic of resource usage.",
    "limited_topics": "Topics whose own limits are in force, at all brokers.",
}
_BY_GROUP: Final[Texts] = {
    "native_dispatch_topics": "Topics at this broker with a dispatch rate of the group's limit.",
}
_BY_UNIT: Final[Texts] = {
    "native_entry": "This broker's entry in Pulsar's resource usage: what it may pass in an interval.",
    "native_rest": "Entry for the room in the record that no broker may use, of an interval.",
    "native_trim_permille": (
        "Thousandths of its part that this broker's entry has, to make up for batches."
    ),
}


def native_families(state: NativeState) -> Iterator[Metric]:
    """Yield all families."""
    yield from figures("native_", state, _GAUGES, {})
    yield counter(
        "native_entries_written", "Messages with entries that a broker took.", state.written
    )
    yield counter(
        "native_entries_failed", "Messages with entries that no broker took.", state.failed
    )
    yield gauge(
        "native_interval_seconds",
        "Interval at which the broker reports and reads resource usage.",
        state.interval_s,
        "seconds",
    )
    yield gauge(
        "native_poll_seconds",
        "Time from one reading of the broker's counters to the next.",
        state.poll_s,
        "seconds",
    )
    by_group, by_unit = (
        FamilyTable(["native_group"], _BY_GROUP, {}),
        FamilyTable(["native_group", "unit_counted"], _BY_UNIT, {}),
    )
    for view in state.groups:
        by_group.add([view.name], {"native_dispatch_topics": view.dispatch_topics})
        both = zip(view.entry, view.rest, view.trim_permille, strict=True)
        for unit, values in zip(Unit, both, strict=True):
            by_unit.add([view.name, unit.value], dict(zip(_BY_UNIT, values, strict=True)))
    yield from by_group
    yield from by_unit
