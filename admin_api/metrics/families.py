"""Families of metrics with one sample, or one per value of one label."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def gauge(name: str, text: str, value: float, unit: str = "") -> Metric:
    """Return a gauge."""
    return GaugeMetricFamily(f"pulsar_quota_{name}", text, value=value, unit=unit)


def counter(name: str, text: str, value: float, unit: str = "") -> Metric:
    """Return a counter."""
    return CounterMetricFamily(f"pulsar_quota_{name}", text, value=value, unit=unit)


def labelled_counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    """Return a counter for each value of a label."""
    family = CounterMetricFamily(f"pulsar_quota_{name}", text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
