"""The metrics of escaped traffic.

A namespace has series of a class from its first escaped byte on; those after the first `SERIES_MAX` of
`coordinator.reconciliation.engine.reconciliation` are one series, ``(others)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from admin_api.metrics.families import FamilyTable, Texts, counter, gauge
from coordinator.insight.model.reconciliation_views import ReconciliationView

_GAUGES: Final[Texts] = {
    "escaping_bytes_per_second": ("Bytes per second that go round the gate now; 0 below 1,000."),
}
_COUNTERS: Final[Texts] = {
    "escaped_bytes": "Bytes that went round the gate: the broker counted them, the gate did not.",
    "escaped_messages": (
        "Messages that went round the gate, as far as clients' claims let their number be known."
    ),
}


def reconciliation_families(view: ReconciliationView) -> Iterator[Metric]:
    """Yield all families."""
    yield gauge(
        "reconciliation_seconds",
        "Time from one comparison of the broker's counters with the gate's to the next.",
        view.interval_seconds,
        "seconds",
    )
    yield counter(
        "reconciliation_readings",
        "Comparisons of the broker's counters with the gate's since the start.",
        view.readings,
    )
    yield gauge(
        "reconciliation_failing", "1 while the broker's counters cannot be read.", bool(view.error)
    )
    yield gauge(
        "reconciliation_left_out",
        "Namespaces, each class for itself, that are not compared, as there are too many.",
        view.left_out,
    )
    yield gauge(
        "reconciliation_namespaces_uncounted",
        "Namespaces with names that the broker's metrics cannot hold, so that they are not compared.",
        len(view.uncounted),
    )
    escapes = FamilyTable(["namespace", "monitoring_class"], _GAUGES, _COUNTERS)
    for escape in view.escapes:
        values = {
            "escaped_bytes": escape.bytes,
            "escaped_messages": escape.messages,
            "escaping_bytes_per_second": escape.bytes_per_second,
        }
        escapes.add([escape.namespace, escape.monitoring_class.value], values)
    yield from escapes
