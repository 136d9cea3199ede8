"""Metrics to an OpenTelemetry collector, over OTLP/HTTP in protobuf.

One push after the other, with the content of `/metrics` at that moment, encoded in a thread. A push that
a collector does not accept is not kept: counts are cumulative, so the next push repeats them, and memory
does not grow however long a collector is away. A failure here is counted, logged when it begins and when
it is over, and touches nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Self

import structlog
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from prometheus_client.core import Metric

from coordinator.adapters.otlp.model import OtlpModel

TIMEOUT_S: Final = 5.0
"""The time for one push, with all its attempts; a sidecar that stops waits no longer for one."""

Gather = Callable[[], Awaitable[Iterable[Metric]]]

log = structlog.get_logger(__name__)


class OtlpPush:
    """Pushes metrics to one collector.

    Args:
        url: the collector's URL for metrics, such as http://collector:4318/v1/metrics.
        interval_s: from the beginning of one push to that of the next.
        resource: the identity of the sidecar, by OpenTelemetry's conventions for the names.
        token: sent as Bearer; empty sends none.
    """

    def __init__(
        self, url: str, *, interval_s: float, resource: Mapping[str, str], token: str = ""
    ) -> None:
        self._interval_s = interval_s
        self._model = OtlpModel(resource, time.time_ns())
        self._reasons = _Reasons()
        self._exporter = OTLPMetricExporter(
            endpoint=url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=TIMEOUT_S,
            compression=Compression.Gzip,
        )
        self._problem = ""
        #: Pushes that the collector accepted, and that it did not.
        self.delivered = 0
        self.failed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._exporter.shutdown()
        self._reasons.detach()

    async def run(self, gather: Gather) -> None:
        """Push the result of `gather` for ever."""
        while True:
            await asyncio.gather(self.push(gather), asyncio.sleep(self._interval_s))

    async def push(self, gather: Gather) -> None:
        """Push once."""
        try:
            families = await gather()
            problem = await asyncio.to_thread(self._export, families)
        except Exception as error:
            log.exception("metrics could not be gathered for OpenTelemetry")
            problem = str(error)
        if problem:
            self.failed += 1
        else:
            self.delivered += 1
        if bool(problem) is not bool(self._problem):
            if problem:
                log.warning("OpenTelemetry's collector takes no metrics", reason=problem)
            else:
                log.info("OpenTelemetry's collector takes metrics again")
        self._problem = problem

    def _export(self, families: Iterable[Metric]) -> str:
        """Encode and send; return the reason of a failure, or an empty text."""
        self._reasons.first = ""
        data = self._model.translate(families, time.time_ns())
        if self._exporter.export(data) is MetricExportResult.SUCCESS:
            return ""
        return self._reasons.first or "unknown reason"


class _Reasons(logging.Handler):
    """Remembers the reason of a failure: the exporter logs it each time, and returns none."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        #: The reason of this push; later records are about attempts and time.
        self.first = ""
        self._logger = logging.getLogger(OTLPMetricExporter.__module__)
        self._logger.addHandler(self)
        self._logger.propagate = False

    def detach(self) -> None:
        """Listen no more."""
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first record."""
        self.first = self.first or record.getMessage()
