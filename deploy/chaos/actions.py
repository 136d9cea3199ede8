"""The actions of mishaps: each function does one thing to a testbed for a while, and undoes it.

Each takes the testbed, the name of a broker or of its sidecar, and a time in seconds. Actions that need
privileges are left out. Clocks are not made to jump: that takes a time name space, and the sidecar's
decisions go by CLOCK_MONOTONIC alone, which cannot be set. No disk is really full: RLIMIT_FSIZE forbids a
sidecar's processes to write to files instead, and they cannot tell the difference.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pulsar

from coordinator.core.topics import RESOURCE_USAGE_TOPIC
from deploy.chaos.links import Link, Treatment
from deploy.chaos.testbed import Testbed
from deploy.clients import quiet_client
from deploy.local import processes
from deploy.local.errors import LocalClusterError

FLOOD = 1_000
"""Connections."""

GATE_GONE = 1
"""The exit code of a sidecar whose gate is gone."""

_POLL_S = 0.05
_READY_WITHIN_S = 60.0
_GARBAGE_PER_S = 200

Do = Callable[[Testbed, str, float], None]
"""Does something to a testbed, at the sidecar or broker of this name, for a time in seconds."""


def kill_sidecar(testbed: Testbed, name: str, seconds: float) -> None:
    """SIGKILL, and a new process later."""
    testbed.sidecars.end(name, signal.SIGKILL)
    time.sleep(seconds)
    testbed.sidecars.start(name, timeout_s=_READY_WITHIN_S)


def freeze_sidecar(testbed: Testbed, name: str, seconds: float) -> None:
    """SIGSTOP, and SIGCONT later."""
    _freeze(testbed.sidecars.pid(name), seconds)


def kill_gate(testbed: Testbed, name: str, seconds: float) -> None:
    """SIGKILL of a gate's process alone: its sidecar ends by itself, and is started again later."""
    code = testbed.sidecars.kill_gate(name)
    if code != GATE_GONE:
        raise LocalClusterError(
            f"The sidecar of {name} ended with {code}, not {GATE_GONE}, when its gate was killed."
        )
    time.sleep(seconds)
    testbed.sidecars.start(name, timeout_s=_READY_WITHIN_S)


def freeze_gate(testbed: Testbed, name: str, seconds: float) -> None:
    """SIGSTOP of a gate's process alone, and SIGCONT later."""
    _freeze(testbed.sidecars.gate(name).pid, seconds)


def _freeze(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def roll_sidecars(testbed: Testbed, _: str, seconds: float) -> None:
    """Restart all sidecars one after the other, with this pause after each."""
    for name in testbed.brokers:
        testbed.sidecars.end(name, signal.SIGTERM)
        testbed.sidecars.start(name, timeout_s=_READY_WITHIN_S)
        time.sleep(seconds)


def kill_broker(testbed: Testbed, name: str, seconds: float) -> None:
    """SIGKILL, and a new process later; the topics come back."""
    _end_server(testbed, name, signal.SIGKILL, seconds)
    testbed.come_home()


def restart_broker(testbed: Testbed, name: str, seconds: float) -> None:
    """SIGTERM, and a new process later; the topics come back."""
    _end_server(testbed, name, signal.SIGTERM, seconds)
    testbed.come_home()


def kill_owner(testbed: Testbed, _: str, seconds: float) -> None:
    """SIGKILL the broker that serves the topic on which brokers report; the topics come back."""
    owner = testbed.topics.owner(RESOURCE_USAGE_TOPIC)
    _end_server(testbed, owner.name, signal.SIGKILL, seconds)
    testbed.come_home()


def kill_bookie(testbed: Testbed, _: str, seconds: float) -> None:
    """SIGKILL, and a new process on the same data later."""
    _end_server(testbed, "bookie", signal.SIGKILL, seconds)


def freeze_bookie(testbed: Testbed, _: str, seconds: float) -> None:
    """SIGSTOP, and SIGCONT later."""
    freeze_server(testbed, "bookie", seconds)


def kill_zookeeper(testbed: Testbed, _: str, seconds: float) -> None:
    """SIGKILL the leader of the ensemble, and start it again later."""
    _end_server(testbed, _leader(testbed), signal.SIGKILL, seconds)


def freeze_zookeeper(testbed: Testbed, _: str, seconds: float) -> None:
    """SIGSTOP the leader of the ensemble, and SIGCONT later."""
    freeze_server(testbed, _leader(testbed), seconds)


def _end_server(testbed: Testbed, name: str, number: signal.Signals, seconds: float) -> None:
    testbed.cluster.kill(name, number)
    time.sleep(seconds)
    testbed.cluster.start_server(name)


def freeze_server(testbed: Testbed, name: str, seconds: float) -> None:
    """SIGSTOP a server of the cluster, and SIGCONT later."""
    testbed.cluster.kill(name, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        testbed.cluster.kill(name, signal.SIGCONT)


def _leader(testbed: Testbed) -> str:
    """The ZooKeeper that leads the ensemble, or the only one."""
    for server in testbed.cluster.state.zookeepers:
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 2.0) as peer:
            peer.sendall(b"srvr")
            with peer.makefile("rb") as answer:
                said = answer.read()
            if b"Mode:" in said and b"follower" not in said:
                return server.name
    raise LocalClusterError("No ZooKeeper leads.")


def linked(links: Callable[[Testbed, str], tuple[Link, ...]], condition: Treatment) -> Do:
    """Return an action that puts these links into a condition for a while."""

    def do(testbed: Testbed, name: str, seconds: float) -> None:
        with ExitStack() as stack:
            found = links(testbed, name)
            stack.callback(testbed.links.mend, *found)
            testbed.links.become(condition, *found)
            time.sleep(seconds)

    return do


def zookeeper(testbed: Testbed, name: str) -> tuple[Link, ...]:
    """The links between a sidecar and all ZooKeepers."""
    return testbed.network_paths[name].to_zookeeper


def bus(testbed: Testbed, name: str) -> tuple[Link, ...]:
    """The links between a sidecar and all brokers' bus."""
    return testbed.network_paths[name].to_bus


def broker(testbed: Testbed, name: str) -> tuple[Link, ...]:
    """The link between a gate and its broker."""
    return (testbed.to_broker[name],)


def flood(testbed: Testbed, name: str, seconds: float) -> None:
    """Open `FLOOD` connections at a gate, say nothing, and close them later."""
    address = ("127.0.0.1", testbed.brokers[name].gate_port)
    with ExitStack() as stack:
        for _ in range(FLOOD):
            stack.enter_context(socket.create_connection(address, 10.0))
        time.sleep(seconds)


def exhaust_descriptors(testbed: Testbed, name: str, seconds: float) -> None:
    """Leave a gate no descriptor for a new connection, and keep asking for some."""
    pid = testbed.sidecars.gate(name).pid
    in_use = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()) + 1
    address = ("127.0.0.1", testbed.brokers[name].gate_port)
    with processes.limited(pid, resource.RLIMIT_NOFILE, in_use), ExitStack() as stack:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            with suppress(OSError):
                stack.enter_context(socket.create_connection(address, 1.0))
            time.sleep(_POLL_S)


def fill_disk(testbed: Testbed, name: str, seconds: float) -> None:
    """Let every write of a sidecar to a file fail, whichever of its processes writes."""
    with ExitStack() as stack:
        for process in processes.family(testbed.sidecars.pid(name)):
            stack.enter_context(processes.limited(process.pid, resource.RLIMIT_FSIZE, 0))
        time.sleep(seconds)


def consume_slowly(testbed: Testbed, name: str, seconds: float) -> None:
    """Subscribe to a topic from its first message, and read five messages a second."""
    with closing(quiet_client(testbed.service_url)) as client:
        consumer = client.subscribe(
            testbed.topic_of[name],
            "slow",
            pulsar.ConsumerType.Shared,
            receiver_queue_size=10,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            with suppress(pulsar.Timeout):
                consumer.acknowledge(consumer.receive(timeout_millis=500))
            time.sleep(0.2)
        consumer.unsubscribe()


def spew_garbage(testbed: Testbed, _: str, seconds: float) -> None:
    """Publish bytes at random on every bus topic."""
    broker = next(iter(testbed.brokers.values()))
    with closing(quiet_client(broker.service_url, listener_name="internal")) as client:
        producers = [
            client.create_producer(topic, batching_enabled=False)
            for topic in testbed.sidecars.bus_topics
        ]
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            for producer in producers:
                producer.send_async(os.urandom(200), _ignore)
            time.sleep(1 / _GARBAGE_PER_S)
        for producer in producers:
            producer.flush()


def _ignore(*_: object) -> None:
    """Take garbage and do nothing with it."""
