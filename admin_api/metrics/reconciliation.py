"""The metrics of escaped traffic.

A namespace has series from its first escaped message on; those after the first `SERIES_MAX` of
`coordinator.reconciliation.engine.reconciliation` are one series, ``(others)``.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from admin_api.metrics.families import counter, gauge
from coordinator.reconciliation.engine.reconciliation import OTHERS, ReconciliationState


def reconciliation_families(state: ReconciliationState) -> Iterator[Metric]:
    """Yield all families."""
    yield gauge(
        "reconciliation_seconds",
        "From one comparison of the broker's counters with the gate's to the next.",
        state.interval_s,
        "seconds",
    )
    yield counter("reconciliation_readings", "Such comparisons since the start.", state.readings)
    yield gauge(
        "reconciliation_failing", "1 while the broker's counters cannot be read.", bool(state.error)
    )
    yield gauge(
        "reconciliation_namespaces_left_out",
        "Namespaces that are not compared, as there are too many.",
        state.left_out,
    )
    yield gauge(
        "reconciliation_namespaces_uncounted",
        "Namespaces with topics that the broker's metrics cannot hold, so that they are not compared.",
        len(state.uncounted),
    )
    messages = CounterMetricFamily(
        "pulsar_quota_escaped_messages",
        "Messages that the broker counted and the gate did not pass.",
        labels=["namespace"],
    )
    sizes = CounterMetricFamily(
        "pulsar_quota_escaped_bytes", "The same in bytes.", labels=["namespace"]
    )
    rates = GaugeMetricFamily(
        "pulsar_quota_escaping_messages_per_second",
        "The present rate of these messages; 0 when it is over.",
        labels=["namespace", "way"],
    )
    for escape in state.escapes:
        messages.add_metric([escape.namespace], escape.total.messages)
        sizes.add_metric([escape.namespace], escape.total.bytes)
        rates.add_metric([escape.namespace, escape.finding.way.value], escape.rate.messages)
    if state.others.messages:
        messages.add_metric([OTHERS], state.others.messages)
        sizes.add_metric([OTHERS], state.others.bytes)
    yield from (messages, sizes, rates)
