"""Backlogs of 10,000 topics of a real broker: how long a check takes, and what it costs the broker.

One broker, partitioned topics with a subscription, a message behind in a tenth of the partitions and then
in all. A *first* check knows nothing and glances at nearly every topic with a backlog; a *steady* one
comes a minute later, when nothing has moved, but quotas may have, and it is not known of every topic
where its oldest message lies. Processor time is the broker's own, over what it needs in as long without
a check, and told as a part of the interval of 60 s. ``TOPICS=n make bench ONLY=backlog`` takes another
number of topics.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import httpx
import pulsar
import uvloop

from benchmarks.figures import Figure, Measurement
from benchmarks.one_broker import one_broker
from coordinator.adapters.broker.backlog import HttpBacklogSource
from coordinator.adapters.clock import MonotonicClock, wall_ms
from coordinator.backlog.rules.monitor import BacklogMonitor
from coordinator.backlog.shell.checker import BacklogWatch
from deploy.clients import quiet_client
from deploy.local import processes
from deploy.local.cluster import Cluster
from deploy.local.state import Broker

TOPICS: Final = 10_000
PARTITIONED: Final = 20
"""Topics that all the others are the partitions of; a tenth of them is behind first."""
INTERVAL_S: Final = 60.0
_STATS_S: Final = 5.0
_NAMESPACE: Final = "bench/backlog"
_TENTH, _ALL = "", "-all-behind"


@dataclass(frozen=True, slots=True)
class CheckCost:
    """One check: seconds on the clock, of the broker's processor and of our own, and questions."""

    seconds: float
    broker_s: float
    own_s: float
    questions: int


class BacklogBench:
    """A broker with many topics.

    Args:
        cluster: of one broker.
        partitions: of each topic.
    """

    def __init__(self, cluster: Cluster, partitions: int) -> None:
        self.broker: Broker = cluster.brokers[0]
        assert self.broker.pid is not None
        self._pid = self.broker.pid
        self._partitions = partitions

    def create_topics(self) -> None:
        """Partitions with a subscription each, so that the broker has them loaded."""
        base = f"{self.broker.web_url}/admin/v2/persistent/{_NAMESPACE}"
        with httpx.Client(trust_env=False, timeout=300.0) as http:
            for number in range(PARTITIONED):
                topic = f"{base}/t{number}"
                http.put(f"{topic}/partitions", json=self._partitions).raise_for_status()
                http.put(f"{topic}/subscription/behind").raise_for_status()

    def publish(self, first: int, last: int) -> None:
        """A message to every partition of the topics from the first to before the last."""
        with closing(quiet_client(self.broker.service_url, listener_name="internal")) as client:
            for number in range(first, last):
                producer = client.create_producer(
                    f"persistent://{_NAMESPACE}/t{number}",
                    batching_enabled=False,
                    message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
                )
                for _ in range(self._partitions):
                    producer.send_async(b"x" * 100, None)
                producer.flush()
                producer.close()

    def processor_s(self) -> float:
        """Processor seconds that the broker has used so far."""
        return processes.processor_s(self._pid)

    async def idle_share(self, seconds: float) -> float:
        """The broker's own load: processor seconds per second."""
        began, used = time.monotonic(), self.processor_s()
        await asyncio.sleep(seconds)
        return (self.processor_s() - used) / (time.monotonic() - began)

    async def check(self, watch: BacklogWatch, idle_share: float) -> CheckCost:
        """Check once; the broker's own needs are taken off."""
        began, used, own = time.monotonic(), self.processor_s(), time.process_time()
        asked = watch.checks.questions
        await watch.check()
        seconds = time.monotonic() - began
        if watch.checks.problem:
            raise RuntimeError(f"the check failed: {watch.checks.problem}")
        return CheckCost(
            seconds,
            self.processor_s() - used - idle_share * seconds,
            time.process_time() - own,
            watch.checks.questions - asked,
        )


async def _measure(bench: BacklogBench) -> dict[str, CheckCost]:
    """A first check and a steady one: with a tenth of the partitions behind, and with all."""
    found = {}
    async with HttpBacklogSource(bench.broker.web_url) as source:
        for name, first in ((_TENTH, 0), (_ALL, PARTITIONED // 10)):
            last = PARTITIONED if first else PARTITIONED // 10
            await asyncio.to_thread(bench.publish, first, last)
            await asyncio.sleep(3 * _STATS_S)
            idle_share = await bench.idle_share(INTERVAL_S / 2)
            watch = BacklogWatch(source, BacklogMonitor(), clock=MonotonicClock(), wall_ms=wall_ms)
            found[f"first{name}"] = await bench.check(watch, idle_share)
            await asyncio.sleep(INTERVAL_S)
            found[f"steady{name}"] = await bench.check(watch, idle_share)
    return found


def checks() -> Iterator[Figure]:
    """The duration of checks, and the broker's processor time."""
    settings = {
        "backlogQuotaCheckEnabled": "false",
        "statsUpdateFrequencyInSecs": str(round(_STATS_S)),
    }
    java = ("-Xmx1500m", "-XX:MaxDirectMemorySize=512m")
    with one_broker(
        _NAMESPACE, bundles=16, broker_settings=settings, broker_java_options=java
    ) as cluster:
        bench = BacklogBench(cluster, int(os.environ.get("TOPICS") or TOPICS) // PARTITIONED)
        bench.create_topics()
        found = uvloop.run(_measure(bench))
    for name, check in found.items():
        more = {
            "questions": check.questions,
            "broker's processor, s": check.broker_s,
            "our processor, s": check.own_s,
        }
        yield Figure(f"backlog/{name}-check", check.seconds, "s", "lower", more, 30.0)
    for name in (f"steady{_TENTH}", f"steady{_ALL}"):
        share = 100 * found[name].broker_s / INTERVAL_S
        yield Figure(f"backlog/{name}-broker-processor", share, "% of a core", "lower", {}, 5.0)


MEASUREMENTS: Mapping[str, Measurement] = {"backlog/": checks}
