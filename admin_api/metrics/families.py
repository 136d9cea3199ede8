"""Families of metrics with one sample, or one per value of one label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

EXPORTER: Final = "exporter"
"""The label of every metric that has a name of Pulsar's: the broker beside has it, too.

Without it both would be series of the same labels but for Prometheus's own, and a sum would count twice.
"""

OURS: Final = "pulsar-quota"
"""Its value."""


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
