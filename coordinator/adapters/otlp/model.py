"""The metrics of Prometheus, in the data model of OpenTelemetry.

Names stay the same, so that a query means the same on both ways; only the ``_total`` of counters is left
out, which a collector adds again for Prometheus. Units that are part of the names are given in UCUM, too.
Counters are cumulative since the start of the sidecar: the next push makes up for a lost one. As
OpenTelemetry's rules of compatibility say, a state set and an info are sums that may fall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import core as prometheus
from prometheus_client.samples import Sample

_UNITS: Final[Mapping[str, str]] = {
    "_messages_per_second": "{message}/s",
    "_bytes_per_second": "By/s",
    "_messages": "{message}",
    "_bytes": "By",
    "_seconds": "s",
    "_ratio": "1",
}
"""The ends of names, longest first, and their units in UCUM."""

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


class OtlpModel:
    """Translates the metrics of one sidecar.

    Args:
        resource: the identity of the sidecar, by OpenTelemetry's conventions for the names.
        start_ns: the start of the counts, in nanoseconds of the epoch.
    """

    def __init__(self, resource: Mapping[str, str], start_ns: int) -> None:
        self._resource = Resource.create(dict(resource))
        self._scope = InstrumentationScope("pulsar_quota", resource.get("service.version"))
        self._start_ns = start_ns

    def translate(self, families: Iterable[prometheus.Metric], now_ns: int) -> MetricsData:
        """Translate families as gathered now; a family without a sample is left out."""
        metrics = [self._metric(family, now_ns) for family in families if family.samples]
        scope = ScopeMetrics(self._scope, metrics, schema_url="")
        return MetricsData([ResourceMetrics(self._resource, [scope], schema_url="")])

    def _metric(self, family: prometheus.Metric, now_ns: int) -> Metric:
        name = f"{family.name}_info" if family.type == "info" else family.name
        data: Gauge | Histogram | Sum
        match family.type:
            case "gauge":
                data = Gauge(self._numbers(family.samples, now_ns))
            case "counter":
                counts = [each for each in family.samples if each.name.endswith("_total")]
                data = Sum(self._numbers(counts, now_ns), _CUMULATIVE, is_monotonic=True)
            case "info" | "stateset":
                data = Sum(self._numbers(family.samples, now_ns), _CUMULATIVE, is_monotonic=False)
            case "histogram":
                data = Histogram(list(self._histograms(family.samples, now_ns)), _CUMULATIVE)
            case _:
                raise AssertionError(f"{family.name} is a {family.type}, which no metric here is")
        return Metric(name, family.documentation, _unit(name), data)

    def _numbers(self, samples: Iterable[Sample], now_ns: int) -> list[NumberDataPoint]:
        return [
            NumberDataPoint(sample.labels, self._start_ns, now_ns, float(sample.value))
            for sample in samples
        ]

    def _histograms(self, samples: Iterable[Sample], now_ns: int) -> Iterator[HistogramDataPoint]:
        buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, int]]] = {}
        sums: dict[tuple[tuple[str, str], ...], float] = {}
        for sample in samples:
            labels = tuple((key, value) for key, value in sample.labels.items() if key != "le")
            if sample.name.endswith("_bucket"):
                bucket = float(sample.labels["le"]), int(sample.value)
                buckets.setdefault(labels, []).append(bucket)
            elif sample.name.endswith("_sum"):
                sums[labels] = float(sample.value)
        for labels, cumulative in buckets.items():
            yield HistogramDataPoint(
                attributes=dict(labels),
                start_time_unix_nano=self._start_ns,
                time_unix_nano=now_ns,
                count=cumulative[-1][1],
                sum=sums[labels],
                bucket_counts=_differences([count for _, count in cumulative]),
                explicit_bounds=[bound for bound, _ in cumulative[:-1]],
                min=None,  # type: ignore[arg-type]   # unknown, and the field is optional
                max=None,  # type: ignore[arg-type]
            )


def _differences(counts: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise([0, *counts])]


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")
