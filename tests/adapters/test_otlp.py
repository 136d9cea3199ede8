"""A collector receives by OTLP the metrics of /metrics, and a dead collector disturbs nothing."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from prometheus_client import core as prometheus
from structlog.testing import capture_logs

from admin_api.metrics.scrape import gather
from coordinator.adapters.otlp.push import OtlpPush
from coordinator.backlog.rules.guard import Enforcement
from tests.admin_api.backlog_world import BacklogWorld
from tests.admin_api.world import World

RESOURCE = {"service.name": "pulsar-quota", "service.instance.id": "broker-1"}


class Collector:
    """A web server on a free port that takes what an OpenTelemetry collector takes."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: list[dict[str, str]] = []
        self.requests: list[ExportMetricsServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.headers.append({key.lower(): text for key, text in self.headers.items()})
                request = ExportMetricsServiceRequest.FromString(gzip.decompress(body))
                collector.requests.append(request)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/metrics"

    def close(self) -> None:
        """Take nothing any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def metrics(self) -> dict[str, Metric]:
        """Return the metrics of the last request, by name."""
        (resource,) = self.requests[-1].resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that takes everything."""
    collector = Collector()
    yield collector
    collector.close()


def push_to(url: str, token: str = "") -> OtlpPush:
    """Return a pusher to this address."""
    return OtlpPush(url, interval_s=60.0, resource=RESOURCE, token=token)


async def sample() -> list[prometheus.Metric]:
    """One family of each type."""
    return [
        prometheus.GaugeMetricFamily("q_used_ratio", "Used.", value=0.5, unit="ratio"),
        prometheus.CounterMetricFamily("q_admitted_bytes", "Admitted.", value=7, unit="bytes"),
        prometheus.InfoMetricFamily("q_sidecar", "Who.", value={"broker": "b1"}),
        prometheus.StateSetMetricFamily("q_state", "State.", value={"UP": True, "DOWN": False}),
        prometheus.HistogramMetricFamily(
            "q_hold_seconds",
            "Held.",
            buckets=[("0.1", 2), ("1.0", 5), ("+Inf", 6)],
            sum_value=4.5,
            unit="seconds",
        ),
        prometheus.GaugeMetricFamily("q_empty", "Nothing.", labels=["peer"]),
    ]


async def test_every_type_arrives_as_its_counterpart_with_its_unit(collector: Collector) -> None:
    """A family without a sample does not arrive."""
    async with push_to(collector.url) as push:
        await push.push(sample)
    told = collector.metrics()

    assert {name: metric.unit for name, metric in told.items()} == {
        "q_used_ratio": "1",
        "q_admitted_bytes": "By",
        "q_sidecar_info": "",
        "q_state": "",
        "q_hold_seconds": "s",
    }
    assert told["q_used_ratio"].gauge.data_points[0].as_double == 0.5
    admitted = told["q_admitted_bytes"].sum
    assert (admitted.is_monotonic, admitted.data_points[0].as_double) == (True, 7.0)
    assert admitted.aggregation_temporality == (
        AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    point = admitted.data_points[0]
    assert 0 < point.start_time_unix_nano <= point.time_unix_nano
    assert not told["q_sidecar_info"].sum.is_monotonic
    states = {
        point.attributes[0].value.string_value: point.as_double
        for point in told["q_state"].sum.data_points
    }
    assert states == {"UP": 1.0, "DOWN": 0.0}


async def test_a_histogram_arrives_whole(collector: Collector) -> None:
    """Prometheus counts its buckets up, OpenTelemetry each for itself."""
    async with push_to(collector.url) as push:
        await push.push(sample)
    (point,) = collector.metrics()["q_hold_seconds"].histogram.data_points

    assert (point.count, point.sum) == (6, 4.5)
    assert list(point.explicit_bounds) == [0.1, 1.0]
    assert list(point.bucket_counts) == [2, 3, 1]
    assert not point.HasField("min")


async def test_a_collector_is_told_what_prometheus_is_told(collector: Collector) -> None:
    """Every sample of /metrics, under its name, with its labels and value."""
    world, backlogs = World(), BacklogWorld({"shop/orders": Enforcement.ENFORCE})
    world.throttle_orders()
    backlogs.publish(3)
    await backlogs.watch.check()
    async with world.client(backlogs=backlogs.backlogs()):
        families = await gather(world.backend)

    async def gathered() -> list[prometheus.Metric]:
        return families

    async with push_to(collector.url) as push:
        await push.push(gathered)

    told = collector.metrics()
    expected = {
        (sample.name.removesuffix("_total"), frozenset(sample.labels.items())): sample.value
        for family in families
        if family.type != "histogram"
        for sample in family.samples
    }
    arrived = {
        (name, frozenset((each.key, each.value.string_value) for each in point.attributes)): (
            point.as_double
        )
        for name, metric in told.items()
        if not metric.HasField("histogram")
        for point in (*metric.gauge.data_points, *metric.sum.data_points)
    }
    assert arrived == expected
    for family in families:
        if family.type == "histogram" and family.samples:
            counts = [each.value for each in family.samples if each.name.endswith("_bucket")]
            (point,) = told[family.name].histogram.data_points
            assert list(accumulate(point.bucket_counts)) == counts


async def test_the_collector_learns_who_tells_and_may_ask_for_a_token(
    collector: Collector,
) -> None:
    """The sidecar is a resource, by OpenTelemetry's conventions."""
    async with push_to(collector.url, token="secret") as push:
        await push.push(sample)

    (resource,) = collector.requests[-1].resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert attributes.items() >= RESOURCE.items()
    assert collector.headers[-1]["authorization"] == "Bearer secret"
    assert collector.headers[-1]["content-type"] == "application/x-protobuf"


async def test_a_collector_that_refuses_is_counted_and_tried_again(collector: Collector) -> None:
    """The next push makes good what was lost; the log tells the beginning and the end of it."""
    collector.status = 400
    with capture_logs() as logged:
        async with push_to(collector.url) as push:
            await push.push(sample)
            await push.push(sample)
            collector.status = 200
            await push.push(sample)

    assert (push.delivered, push.failed) == (1, 2)
    assert collector.metrics()["q_admitted_bytes"].sum.data_points[0].as_double == 7.0
    assert [entry["log_level"] for entry in logged] == ["warning", "info"]
    assert "400" in logged[0]["reason"]


async def test_a_dead_collector_fails_a_push_and_nothing_else(collector: Collector) -> None:
    """Within the time for a push."""
    collector.close()
    async with push_to(collector.url) as push:
        await push.push(sample)

    assert (push.delivered, push.failed) == (0, 1)


async def test_a_failure_to_gather_is_a_failed_push(collector: Collector) -> None:
    """A mistake in one metric must not end the sidecar."""

    async def broken() -> list[prometheus.Metric]:
        raise KeyError("b7")

    async with push_to(collector.url) as push:
        await push.push(broken)

    assert (push.delivered, push.failed) == (0, 1)
    assert not collector.requests
