"""Minute averages beside the busiest second, and the number of throttled seconds, of this broker.

Limits hold by the second and finer; a minute's average below the limit says nothing about its seconds.
Only dimensions with traffic have series.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from admin_api.backend import Views
from coordinator.core.model import Dimension, Unit

_LABELS = ["group", "monitoring_class"]


class MinuteFamilies:
    """Collects samples group by group; iterating yields the families.

    Args:
        views: the views that are read.
    """

    def __init__(self, views: Views) -> None:
        self._views = views
        self._averages = {
            unit: GaugeMetricFamily(
                f"pulsar_quota_minute_average_{unit.value}_per_second",
                f"{unit.value.capitalize()} admitted in the last minute, divided by its seconds.",
                labels=_LABELS,
            )
            for unit in Unit
        }
        self._peaks = {
            unit: GaugeMetricFamily(
                f"pulsar_quota_minute_peak_{unit.value}_per_second",
                f"{unit.value.capitalize()} admitted in the busiest second of the last minute.",
                labels=_LABELS,
            )
            for unit in Unit
        }
        self._windows = {
            unit: CounterMetricFamily(
                f"pulsar_quota_throttled_{unit.value}_windows",
                f"Seconds in which at least one client waited for tokens of {unit.value}.",
                labels=_LABELS,
            )
            for unit in Unit
        }

    def add(self, group: str) -> None:
        """Read one group."""
        for dimension in Dimension:
            minute = self._views.minute(group, dimension)
            if minute is None:
                continue
            unit, labels = dimension.unit, [group, dimension.monitoring_class.value]
            self._averages[unit].add_metric(labels, minute.average_per_second)
            self._peaks[unit].add_metric(labels, minute.peak_second)
            throttled = self._views.throttled_seconds(group, dimension)
            self._windows[unit].add_metric(labels, throttled)

    def __iter__(self) -> Iterator[Metric]:
        """Yield each family once."""
        for families in (self._averages, self._peaks, self._windows):
            yield from families.values()
