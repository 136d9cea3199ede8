"""The metrics of escaped traffic.

A namespace has series of a class from its first escaped byte on; those after the first `SERIES_MAX` of
`coordinator.reconciliation.engine.reconciliation` are one series, ``(others)``.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from admin_api.metrics.families import counter, gauge
from coordinator.insight.model.reconciliation_views import ReconciliationView

_LABELS = ["namespace", "monitoring_class"]


def reconciliation_families(view: ReconciliationView) -> Iterator[Metric]:
    """Yield all families."""
    yield gauge(
        "reconciliation_seconds",
        "From one comparison of the broker's counters with the gate's to the next.",
        view.interval_seconds,
        "seconds",
    )
    yield counter("reconciliation_readings", "Such comparisons since the start.", view.readings)
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
    sizes = CounterMetricFamily(
        "pulsar_quota_escaped_bytes",
        "Bytes that the broker counted and the gate did not pass.",
        labels=_LABELS,
    )
    messages = CounterMetricFamily(
        "pulsar_quota_escaped_messages",
        "The same in messages, as far as clients' claims let their number be known.",
        labels=_LABELS,
    )
    rates = GaugeMetricFamily(
        "pulsar_quota_escaping_bytes_per_second",
        "The present rate of these bytes; 0 when it is over, or below 1,000.",
        labels=_LABELS,
    )
    for escape in view.escapes:
        labels = [escape.namespace, escape.monitoring_class.value]
        sizes.add_metric(labels, escape.bytes)
        messages.add_metric(labels, escape.messages)
        rates.add_metric(labels, escape.bytes_per_second)
    yield from (sizes, messages, rates)
