"""A sidecar that has nothing to do: how soon it is ready, what it keeps in memory, what it computes.

Beside a real broker and ZooKeeper, with `GROUPS` groups and one producer, which is silent. It starts
`STARTS` times; then it is left alone and watched. The same with a recorder stands beside: Arrow alone
takes 50 MB.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pulsar

from benchmarks.figures import Figure, Measurement
from deploy.local import processes
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from deploy.local.topics import Topics

GROUPS: Final = 100
STARTS: Final = 3
SETTLING_S: Final = 75.0
"""Until the first check of backlogs and, with a recorder, the first files are written."""
WATCHED_S: Final = 30.0

_NAMESPACE: Final = "bench/idle"
_BUNDLES: Final = 4
_MEGABYTE: Final = 10**6


def idle() -> Iterator[Figure]:
    """Start, memory and processor time."""
    with tempfile.TemporaryDirectory(prefix="pulsar-quota-bench-") as place:
        directory = Path(place)
        with Cluster.start(ClusterOptions(state_dir=directory / "cluster", brokers=1)) as cluster:
            topics = Topics(cluster.brokers)
            topics.create_tenant(_NAMESPACE.split("/")[0])
            topics.create_namespace(_NAMESPACE, _BUNDLES)
            starts, megabytes, percent = _observe(cluster, directory, {})
            _, recording_megabytes, recording_percent = _observe(
                cluster, directory, {"record_dir": str(directory / "recorded")}
            )
    yield Figure("sidecar/start-to-ready", statistics.median(starts), "s", "lower", target=1.0)
    yield Figure(
        "sidecar/idle-memory", megabytes, "MB", "lower", {"recording": recording_megabytes}, 120
    )
    yield Figure(
        "sidecar/idle-processor",
        percent,
        "% of a core",
        "lower",
        {"recording": recording_percent},
        1.0,
    )


def _observe(
    cluster: Cluster, directory: Path, settings: Mapping[str, object]
) -> tuple[list[float], float, float]:
    """Seconds until a sidecar was ready, megabytes, and per cent of a core."""
    broker = cluster.brokers[0]
    with Sidecars(cluster, directory, settings) as sidecars:
        starts = []
        for turn in range(STARTS):
            if turn:
                sidecars.end(broker.name)
            began_s = time.monotonic()
            sidecars.start(broker.name)
            starts.append(time.monotonic() - began_s)
        _define_groups(sidecars.admin_url(broker.name))
        with _a_producer(sidecars.service_url):
            time.sleep(SETTLING_S)
            pid = sidecars.pid(broker.name)
            began_s, used_s = time.monotonic(), processes.processor_s(pid)
            time.sleep(WATCHED_S)
            share = (processes.processor_s(pid) - used_s) / (time.monotonic() - began_s)
            return starts, processes.resident_bytes(pid) / _MEGABYTE, 100 * share


def _define_groups(admin_url: str) -> None:
    with httpx.Client(base_url=f"{admin_url}/admin/v2", trust_env=False) as http:
        for number in range(GROUPS):
            group = http.put(f"/resourcegroups/g{number}", json={"publishRateInMsgs": 1000})
            group.raise_for_status()
        http.post(f"/namespaces/{_NAMESPACE}/resourcegroup/g0").raise_for_status()


@contextmanager
def _a_producer(service_url: str) -> Iterator[None]:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(service_url, logger=logger)
    try:
        client.create_producer(f"persistent://{_NAMESPACE}/t")
        yield
    finally:
        client.close()


MEASUREMENTS: Mapping[str, Measurement] = dict.fromkeys(
    ("sidecar/start-to-ready", "sidecar/idle-memory", "sidecar/idle-processor"), idle
)
