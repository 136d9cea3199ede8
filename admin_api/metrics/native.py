"""The metrics of enforcement by the broker's own limiter."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from admin_api.metrics.families import counter, gauge
from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.views import NativeState


def native_families(state: NativeState) -> Iterator[Metric]:
    """Yield all families."""
    yield gauge("native_connected", "1 when entries can be written.", state.topic.connected)
    yield counter(
        "native_entries_written", "Messages of entries that a broker took.", state.topic.written
    )
    yield counter(
        "native_entries_failed", "Messages of entries that no broker took.", state.topic.failed
    )
    yield gauge(
        "native_interval_seconds",
        "Interval of the broker's resource usage.",
        state.interval_s,
        "seconds",
    )
    yield gauge(
        "native_poll_seconds", "From one reading of the broker's counters to the next.", state.poll_s,
        "seconds",
    )  # fmt: skip
    yield gauge(
        "native_limited_topics", "Topics whose own limits are in force, at all brokers.",
        state.limited_topics,
    )  # fmt: skip
    yield _by_group(
        state, "entry", "This broker's entry, of an interval.", [v.entry for v in state.groups]
    )
    yield _by_group(
        state,
        "rest",
        "What is in no broker's name, of an interval.",
        [v.rest for v in state.groups],
    )
    family = GaugeMetricFamily(
        "pulsar_quota_native_dispatch_topics",
        "Topics at this broker with a dispatch rate of the group's limit.",
        labels=["native_group"],
    )
    for view in state.groups:
        family.add_metric([view.name], view.dispatch_topics)
    yield family
    trims = [Amounts(*view.trim_permille) for view in state.groups]
    yield _by_group(state, "trim_permille", "Of its part that a broker is told.", trims)


def _by_group(state: NativeState, name: str, text: str, values: list[Amounts]) -> Metric:
    family = GaugeMetricFamily(
        f"pulsar_quota_native_{name}", text, labels=["native_group", "unit_counted"]
    )
    for view, value in zip(state.groups, values, strict=True):
        family.add_metric([view.name, "messages"], value.messages)
        family.add_metric([view.name, "bytes"], value.bytes)
    return family
