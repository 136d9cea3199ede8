"""A cluster whose brokers read entries, native sidecars, and load that goes straight to the brokers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pulsar

from coordinator.adapters.pulsar.native_messages import encode
from coordinator.adapters.pulsar.native_topic import TOPIC
from coordinator.native.engine.entries import Amounts
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import PROGRAM, Sidecars, configuration, write_configuration
from deploy.local.topics import Topics
from tests.pulsar_version import pulsar_version

LIMIT = 3_000
NAMESPACE = "native/orders"


class Native:
    """A cluster whose brokers read entries, and a native sidecar beside each."""

    def __init__(self, cluster: Cluster, sidecars: Sidecars, http: httpx.Client) -> None:
        self.cluster, self.sidecars = cluster, sidecars
        #: The brokers whose clients come through a gate, unless `load` is told otherwise.
        self.gated: frozenset[str] = frozenset()
        self.brokers = {broker.name: broker for broker in cluster.brokers}
        self.http = http
        self.topics = Topics(cluster.brokers)
        self.topics.create_tenant("native")
        self.topics.create_namespace(NAMESPACE, 12)
        self.by_broker = self.topics.one_for_each_broker(NAMESPACE, "t", "persistent")
        self._api("PUT", "/admin/v2/resourcegroups/native", {"publishRateInMsgs": LIMIT})
        self._api("POST", f"/admin/v2/namespaces/{NAMESPACE}/resourcegroup/native")

    def configure(self, settings: Mapping[str, object], *names: str) -> None:
        """Write the configuration of these brokers' sidecars, or all, anew, for their next start."""
        for name in names or tuple(self.brokers):
            native = {"enforcement_path": "native", **settings}
            topics = self.sidecars.bus_topics
            keys = configuration(self.brokers[name], self.cluster, topics, native)
            write_configuration(self.sidecars.configuration_file(name), keys)

    def _api(self, method: str, path: str, body: object = None) -> None:
        url = f"{self.sidecars.admin_url('broker-1')}{path}"
        assert self.http.request(method, url, json=body).is_success

    def record(self) -> int:
        """Messages per second in Pulsar's own record."""
        url = f"{self.cluster.web_url()}/admin/v2/resourcegroups/native"
        answer = self.http.get(url)
        return int(answer.json()["publishRateInMsgs"]) if answer.is_success else 0

    def conditions(self) -> dict[str, str]:
        """Return the text of each condition that a sidecar tells: why its limit is not exact."""
        found: dict[str, str] = {}
        for name in self.brokers:
            answer = self.http.get(f"{self.sidecars.admin_url(name)}/quota/v1/native")
            found |= {each["code"]: each["text"] for each in answer.json()["conditions"]}
        return found

    def service_url(self, name: str) -> str:
        """In whose name a broker reports."""
        return f"pulsar://127.0.0.1:{self.brokers[name].broker_port}"

    def off(self) -> subprocess.CompletedProcess[str]:
        """``pulsar-quota native off``."""
        file = self.sidecars.configuration_file("broker-1")
        command = [sys.executable, *PROGRAM, "native", "off", "--config", str(file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    @contextmanager
    def stranger_in_the_name_of(self, broker: str, messages: int) -> Iterator[None]:
        """A stock client that writes entries ten times a second."""
        name = self.service_url(broker) if broker in self.brokers else broker
        payload = encode(name, {"native": Amounts(messages)})
        client = pulsar.Client(self.service_url("broker-1"))
        producer = client.create_producer(TOPIC, producer_name="evil")
        over = threading.Event()

        def write() -> None:
            while not over.wait(0.1):
                producer.send(payload)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            over.set()
            writer.join()
            client.close()

    @contextmanager
    def load(self, rates: Mapping[str, int], *, past_gates: bool = False) -> Iterator[None]:
        """Clients that go to their brokers: through the gate where there is one, or past it."""
        clients = [
            subprocess.Popen(
                [
                    sys.executable, "-m", "deploy.demo.load",
                    "--url", f"pulsar://127.0.0.1:{self._door(name, past_gates)}",
                    "--topic", self.by_broker[name], "--rate", str(rate),
                ],
                stdout=subprocess.DEVNULL,
            )
            for name, rate in rates.items()
        ]  # fmt: skip
        try:
            yield
        finally:
            for client in clients:
                client.terminate()
            for client in clients:
                client.wait()

    def _door(self, name: str, past_gates: bool) -> int:
        broker = self.brokers[name]
        is_gated = name in self.gated and not past_gates
        return broker.gate_port if is_gated else broker.broker_port

    def counts(self) -> dict[str, int]:
        """Messages that each broker has taken, by its own counters."""
        return {
            name: self.topics.counters(topic).messages_in for name, topic in self.by_broker.items()
        }

    def rates(self, seconds: float) -> dict[str, float]:
        """Return the messages per second of each broker, over this time."""
        before, began_s = self.counts(), time.monotonic()
        time.sleep(seconds)
        after, elapsed_s = self.counts(), time.monotonic() - began_s
        return {name: (after[name] - before[name]) / elapsed_s for name in before}

    def comes_to(
        self, wanted: Mapping[str, float], within: float, timeout_s: float = 120.0
    ) -> None:
        """Wait until the brokers pass these rates; a busy machine may need a few samples."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = self.rates(10.0)
            if all(abs(found[name] - rate) <= within * rate for name, rate in wanted.items()):
                return
            assert time.monotonic() < deadline, f"{found} is not {wanted}"


@contextmanager
def opened(
    directory: Path,
    settings: Mapping[str, object] = MappingProxyType({}),
    program: Sequence[str] = PROGRAM,
    before: Callable[[Cluster, Sidecars], None] = lambda *_: None,
    **chosen: Any,
) -> Iterator[Native]:
    """A new cluster, of the version that tests run on, and its sidecars.

    Args:
        directory: for both.
        settings: of the sidecars, beyond the addresses.
        program: what Python runs for a sidecar.
        before: called before the sidecars start.
        chosen: options of the cluster that win over these.
    """
    for name in ("cluster", "sidecars"):
        (directory / name).mkdir()
    options: dict[str, Any] = {
        "state_dir": directory / "cluster",
        "own_resource_groups": True,
        "resource_group_interval_s": 1,
        "pulsar": pulsar_version(),
    }
    keys = {"enforcement_path": "native", **settings}
    with (
        Cluster.start(ClusterOptions(**options | chosen)) as cluster,
        Sidecars(cluster, directory / "sidecars", keys, program) as sidecars,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        before(cluster, sidecars)
        sidecars.start()
        yield Native(cluster, sidecars, http)
