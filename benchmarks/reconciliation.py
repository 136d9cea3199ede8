"""Reconciliation on a real broker: the price of comparing counters, there and in the sidecar.

A reading is one request for the broker's metrics, the one that Prometheus makes, by the sidecar's own
adapter; the broker lists every topic in them, as it does by default. What it costs is measured with a
few topics, and with 10,000 idle ones, all loaded. The ratio is the processor time of the idle broker with
readings as far apart as a sidecar has them, by that without; it is high where little else is done, and
the part of a processor beside it holds on a busy broker, too.

It takes a cluster of its own for three minutes. PULSAR is the version of the broker. Its heap has a
gigabyte: the launcher's 384 MB are too small for 10,000 topics and their metrics.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import fields
from typing import Any, Final, NamedTuple

import httpx

from benchmarks.figures import Figure, Measurement
from benchmarks.one_broker import one_broker
from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.config.model import Config
from coordinator.reconciliation.engine.counting import BrokerBook
from coordinator.reconciliation.engine.spacing import Spacing
from deploy import command_line
from deploy.clients import quiet_client
from deploy.local import processes
from deploy.local.state import Broker

TOPICS: Final = 10_000
_NAMESPACE: Final = "reconciled/many"
_JAVA: Final = ("-Xmx1g", "-XX:MaxDirectMemorySize=512m")
_SETTLES_S: Final = 10.0
_IDLE_S: Final = 15.0
_READINGS: Final = 5


class _Reading(NamedTuple):
    """Seconds of a processor that a reading takes, and seconds until it is complete."""

    broker: float
    sidecar: float
    took_s: float


def cost() -> Iterator[Figure]:
    """Processor time of a broker and of its sidecar for a reading."""
    with one_broker(
        _NAMESPACE, bundles=12, pulsar=command_line.pulsar(), broker_java_options=_JAVA
    ) as cluster:
        (broker,) = cluster.brokers
        assert broker.pid is not None
        yield from _figures("few", broker, broker.pid)
        with (
            closing(quiet_client(broker.service_url, operation_timeout_seconds=300)) as client,
            closing(_load_topics(broker, client)),
        ):
            yield from _figures("many", broker, broker.pid)


def _figures(name: str, broker: Broker, pid: int) -> Iterator[Figure]:
    time.sleep(_SETTLES_S)
    idle = _idle(pid)
    reading = asyncio.run(_read(broker, pid, idle))
    spacing = Spacing(_default("reconcile_seconds"), _default("reconcile_part"))
    spacing.succeeded(reading.took_s)
    topics = f"{TOPICS:,} idle topics, all loaded" if name == "many" else "hardly any topics"
    about = (
        f"{topics}, complete after {reading.took_s:.2f} s, so every {spacing.every_s:.1f} s; load "
        f"average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    )
    unit = "s of a processor for a reading"
    for server, value in (("broker", reading.broker), ("sidecar", reading.sidecar)):
        yield Figure(f"reconciliation/reading/{name}/{server}", value, unit, "lower", about=about)
    part = reading.broker / spacing.every_s
    yield Figure(
        f"reconciliation/ratio/{name}/broker",
        (idle + part) / idle,
        "times the processor time without readings",
        "lower",
        {"part of a processor without": idle, "part of a processor for readings": part},
        about=about,
    )


def _default(key: str) -> float:
    """Return the default of a key of the configuration."""
    (default,) = (each.default for each in fields(Config) if each.name == key)
    assert isinstance(default, float)
    return default


def _idle(pid: int) -> float:
    """Return the part of a processor that the broker takes while nothing is asked of it."""
    before = processes.processor_s(pid)
    time.sleep(_IDLE_S)
    return (processes.processor_s(pid) - before) / _IDLE_S


async def _read(broker: Broker, pid: int, idle: float) -> _Reading:
    """Return the means of some readings; one before them is for what Java has to compile."""
    async with MetricsCounters(broker.web_url, passed_only=True) as counters:
        await counters.read()
        began_s, own_s, brokers_s = (
            time.monotonic(),
            time.process_time(),
            processes.processor_s(pid),
        )
        for _ in range(_READINGS):
            book = BrokerBook()
            book.begin()
            book.add((await counters.read()).topics)
            book.end()
        took_s = time.monotonic() - began_s
        return _Reading(
            (processes.processor_s(pid) - brokers_s - idle * took_s) / _READINGS,
            (time.process_time() - own_s) / _READINGS,
            took_s / _READINGS,
        )


def _load_topics(broker: Broker, client: Any) -> Any:
    """Make the partitions of a topic; return a producer of all, which keeps them loaded."""
    topic = f"non-persistent://{_NAMESPACE}/t"
    url = f"{broker.web_url}/admin/v2/{topic.replace('://', '/')}/partitions"
    httpx.put(url, json=TOPICS, timeout=300.0).raise_for_status()
    return client.create_producer(topic, batching_enabled=False)


MEASUREMENTS: Mapping[str, Measurement] = {"reconciliation": cost}
