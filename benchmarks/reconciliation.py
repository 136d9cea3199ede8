"""Reconciliation on a real broker with 10,000 topics: the cost of comparing counters, there and here.

Processor time of both over half a minute with idle topics, all loaded: without reconciliation, and with
it every 2 s, or in its default part of the time. The broker lists every topic in its metrics, as it does
by default; a reading is one request for all of them.

It takes a cluster of its own for some minutes. PULSAR is the version of the broker.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import pulsar

from benchmarks.figures import Figure, Measurement
from deploy import command_line
from deploy.local import processes
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from deploy.local.topics import Topics

TOPICS: Final = 10_000
_TENANT: Final = "reconciled"
_SETTLES_S: Final = 20.0
_MEASURED_S: Final = 60.0


class _Cost(NamedTuple):
    """Parts of a processor, and seconds from one reading to the next; 0 without readings."""

    broker: float
    sidecar: float
    interval_s: float


def cost() -> Iterator[Figure]:
    """Processor time of a broker with many topics and of its sidecar, with reconciliation and without."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options = ClusterOptions(
            state_dir=directory / "cluster", pulsar=command_line.pulsar(), brokers=1
        )
        cluster = stack.enter_context(Cluster.start(options))
        (broker,) = cluster.brokers
        stack.enter_context(_topics(broker))
        without = _measured(cluster, directory, {"reconcile_seconds": 0.0})
        with_it = _measured(cluster, directory, {"reconcile_seconds": 2.0})
    about = (
        f"{TOPICS:,} idle topics, all loaded, a reading every {with_it.interval_s:.1f} s; load average "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    )
    for name, off, on in (
        ("broker", without.broker, with_it.broker),
        ("sidecar", without.sidecar, with_it.sidecar),
    ):
        yield Figure(
            f"reconciliation/cost/{name}",
            on - off,
            "of a processor",
            "lower",
            {"in all, without reconciliation": off, "in all, with it": on},
            about=about,
        )


@contextmanager
def _topics(broker: Broker) -> Iterator[None]:
    """Topics of one namespace, kept loaded by a producer each."""
    topics = Topics([broker])
    topics.create_tenant(_TENANT)
    topics.create_namespace(f"{_TENANT}/many", 12)
    topic = f"non-persistent://{_TENANT}/many/t"
    url = f"{broker.web_url}/admin/v2/{topic.replace('://', '/')}/partitions"
    httpx.put(url, json=TOPICS, timeout=300.0).raise_for_status()
    client = pulsar.Client(broker.service_url, operation_timeout_seconds=300)
    try:
        producer = client.create_producer(topic, batching_enabled=False)
        yield
        producer.close()
    finally:
        client.close()


def _measured(cluster: Cluster, directory: Path, settings: Mapping[str, object]) -> _Cost:
    (broker,) = cluster.brokers
    with (
        Sidecars(cluster, directory, settings) as sidecars,
        httpx.Client(base_url=sidecars.admin_url(broker.name), trust_env=False) as api,
    ):
        sidecars.start()
        time.sleep(_SETTLES_S)
        process = cluster.state.server(broker.name).process
        assert process is not None
        pids = (process.pid, sidecars.pid(broker.name))
        before = [processes.processor_s(pid) for pid in pids]
        time.sleep(_MEASURED_S)
        of_broker, of_sidecar = (
            (processes.processor_s(pid) - was) / _MEASURED_S
            for pid, was in zip(pids, before, strict=True)
        )
        return _Cost(
            of_broker, of_sidecar, api.get("/quota/v1/reconciliation").json()["intervalSeconds"]
        )


MEASUREMENTS: Mapping[str, Measurement] = {"reconciliation/cost": cost}
