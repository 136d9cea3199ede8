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

from coordinator.adapters.pulsar.native_messages import encode
from coordinator.core.topics import RESOURCE_USAGE_TOPIC
from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.trim import MOST_PERMILLE, WHOLE
from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import PROGRAM, Sidecars
from deploy.local.topics import Topics
from tests.integration.sliding import WINDOW_S, Counted, come_to
from tests.pulsar_version import pulsar_version

LIMIT = 3_000
RECORD = LIMIT * MOST_PERMILLE // WHOLE
"""Half of the limit, as brokers start each interval with a full bucket; doubled for headroom."""

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
        self.api("PUT", "/admin/v2/resourcegroups/native", {"publishRateInMsgs": LIMIT})
        self.api("POST", f"/admin/v2/namespaces/{NAMESPACE}/resourcegroup/native")

    def configure(self, settings: Mapping[str, object], *names: str) -> None:
        """Configure these brokers' sidecars, or all, for their next start: native, but for settings."""
        for name in names or tuple(self.brokers):
            self.sidecars.configure(name, {"enforcement_path": "native", **settings})

    def api(self, method: str, path: str, body: object = None) -> None:
        """Ask a sidecar to change something."""
        url = f"{self.sidecars.admin_url('broker-1')}{path}"
        assert self.http.request(method, url, json=body).is_success

    def record(self) -> int:
        """Messages per second in Pulsar's own record."""
        url = f"{self.cluster.web_url()}/admin/v2/resourcegroups/native"
        answer = self.http.get(url)
        return int(answer.json()["publishRateInMsgs"]) if answer.is_success else 0

    def records_seen(self) -> set[int | None]:
        """The messages per second of the record as each sidecar has seen it; None where one has not."""
        found: set[int | None] = set()
        for name in self.brokers:
            answer = self.http.get(f"{self.sidecars.admin_url(name)}/quota/v1/native")
            seen = [each["recordSeen"] for each in answer.json()["groups"]]
            found |= {each and each["messages"] for each in seen} or {None}
        return found

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
        client = quiet_client(self.service_url("broker-1"))
        producer = client.create_producer(RESOURCE_USAGE_TOPIC, producer_name="evil")
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

    def invent(self, broker: str, groups: int, in_each: int = 1_000) -> None:
        """A stock client reports the use of groups that do not exist, in a broker's name."""
        client = quiet_client(self.service_url("broker-1"))
        producer = client.create_producer(RESOURCE_USAGE_TOPIC, producer_name="inventor")
        try:
            for first in range(0, groups, in_each):
                names = (f"invented-{number}" for number in range(first, first + in_each))
                producer.send(
                    encode(self.service_url(broker), dict.fromkeys(names, Amounts(1_000)))
                )
        finally:
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
        self,
        wanted: Mapping[str, float],
        within: float,
        *,
        window_s: int = WINDOW_S,
        timeout_s: float = 120.0,
    ) -> dict[str, float]:
        """Wait until the brokers pass these rates for some seconds, which may begin at any one.

        A machine that stands still for a moment takes the load away from a broker. Return the rates.
        """
        return come_to(self._counted, wanted, within, window_s=window_s, timeout_s=timeout_s)

    def _counted(self) -> Counted:
        asked_s = time.monotonic()
        counts = self.counts()
        read_s = (asked_s + time.monotonic()) / 2
        return {name: (count, read_s) for name, count in counts.items()}


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
        "quick": True,
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
