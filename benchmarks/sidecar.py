"""A sidecar that has nothing to do: how soon it serves, what it keeps in memory, what it computes.

Beside a real broker and ZooKeeper, with `GROUPS` groups and one producer, which is silent. It starts
`STARTS` times; then it is left alone and watched. The same with a recorder stands beside: Arrow alone
takes 50 MB.

It serves from when a client's first words to the gate are answered. Memory and processor time are those
of all its processes: the coordinator, the gate, and the client of the bus. The libraries' files that
several have mapped count once.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Figure, Measurement
from benchmarks.one_broker import one_broker
from deploy.clients import quiet_client
from deploy.local import processes
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from tests.gate import peer

GROUPS: Final = 100
STARTS: Final = 3
SETTLING_S: Final = 75.0
"""Until the first check of backlogs and, with a recorder, the first files are written."""
WATCHED_S: Final = 30.0

_SERVES_WITHIN_S: Final = 60.0
_ANSWERS_WITHIN_S: Final = 2.0
_POLL_S: Final = 0.005

_NAMESPACE: Final = "bench/idle"
_MEGABYTE: Final = 10**6


def idle() -> Iterator[Figure]:
    """Start, memory and processor time."""
    with one_broker(_NAMESPACE) as cluster:
        plain = _observe(cluster, {})
        recorded = cluster.state_dir.parent / "recorded"
        recording = _observe(cluster, {"record_dir": str(recorded)})
    yield Figure("sidecar/start-to-serving", plain.serving_s, "s", "lower", target=1.0)
    yield Figure(
        "sidecar/idle-memory",
        plain.megabytes,
        "MB",
        "lower",
        {
            "recording": recording.megabytes,
            "of it, the gate's": plain.gate_megabytes,
            "of it, the bus client's": plain.client_megabytes,
        },
        120,
    )
    yield Figure(
        "sidecar/idle-processor",
        plain.percent,
        "% of a core",
        "lower",
        {"recording": recording.percent},
        1.0,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """The time and memory that a sidecar was seen to take.

    Args:
        serving_s: from its start until the gate had answered a client; the median of the starts.
        megabytes: of all its processes.
        gate_megabytes: the part that only the gate's process has, without files.
        client_megabytes: the same of the process of the bus's client.
        percent: of a core, of both.
    """

    serving_s: float
    megabytes: float
    gate_megabytes: float
    client_megabytes: float
    percent: float


def _observe(cluster: Cluster, settings: Mapping[str, object]) -> _Seen:
    broker = cluster.brokers[0]
    with Sidecars(cluster, cluster.state_dir.parent, settings) as sidecars:
        starts = []
        for turn in range(STARTS):
            if turn:
                sidecars.end(broker.name)
            starts.append(_start(sidecars, broker))
        for number in range(GROUPS):
            sidecars.limit(f"g{number}", {"publishRateInMsgs": 1000})
        sidecars.attach(_NAMESPACE, "g0")
        with (
            closing(quiet_client(sidecars.service_url)) as client,
            closing(client.create_producer(f"persistent://{_NAMESPACE}/t")),
        ):
            time.sleep(SETTLING_S)
            coordinator, gate = sidecars.pid(broker.name), sidecars.gate(broker.name).pid
            pids = [process.pid for process in processes.family(coordinator)]
            (bus_client,) = set(pids) - {coordinator, gate}
            began_s, used_s = time.monotonic(), _processor_s(pids)
            time.sleep(WATCHED_S)
            share = (_processor_s(pids) - used_s) / (time.monotonic() - began_s)
            gate_bytes, client_bytes = processes.own_bytes(gate), processes.own_bytes(bus_client)
            return _Seen(
                serving_s=statistics.median(starts),
                megabytes=processes.together_bytes(pids) / _MEGABYTE,
                gate_megabytes=gate_bytes / _MEGABYTE,
                client_megabytes=client_bytes / _MEGABYTE,
                percent=100 * share,
            )


def _start(sidecars: Sidecars, broker: Broker) -> float:
    """Start it; seconds until it served."""
    with ThreadPoolExecutor(1) as beside:
        began_s = time.monotonic()
        serving = beside.submit(_serving_at_s, broker.gate_port)
        sidecars.start(broker.name)
        return serving.result() - began_s


def _serving_at_s(port: int) -> float:
    """When a client that tries and tries again is first answered.

    Raises:
        TimeoutError: it is not.
    """
    gives_up_s = time.monotonic() + _SERVES_WITHIN_S
    while time.monotonic() < gives_up_s:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), _ANSWERS_WITHIN_S) as client,
        ):
            client.sendall(peer.connect())
            if client.recv(1):
                return time.monotonic()
        time.sleep(_POLL_S)
    raise TimeoutError(f"no process answers at the gate, port {port}")


def _processor_s(pids: list[int]) -> float:
    return sum(map(processes.processor_s, pids))


MEASUREMENTS: Mapping[str, Measurement] = {"sidecar/": idle}
