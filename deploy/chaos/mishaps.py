"""The mishaps: what is done, how it is undone, what it excuses and how soon all must be as before.

Each is a row of `MISHAPS`, so a new one is a row and a function. Where the times come from
(design.md, section 7, and targets.md):

- *A sidecar's share* is free when its session has ended, and in use a round later: 4 s and 1 s.
- *A starting sidecar* serves within a second; clients come back when their back-off is over, which is
  at most as long as they have waited already (3 s here).
- *A broker, the bookie, ZooKeeper* come back in their own time: the mishap is over when they are ready.
  Their own sessions last 5 s, and Pulsar's clients back off for up to 13 s meanwhile.
- *Allowance*: 10 s on top, for machines where three brokers, ZooKeeper and their clients share two
  cores with whatever else runs.

What cannot be done to a process without privileges is left out: clocks are not made to jump (that takes
a time name space; the sidecar's decisions go by CLOCK_MONOTONIC alone, which no one can set), and no
disk is really full: the recorder's process is forbidden to write to files instead (RLIMIT_FSIZE), which
it cannot tell from one.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pulsar

from deploy.chaos.links import Condition, Link
from deploy.chaos.stage import SESSION_TIMEOUT_S, Stage
from deploy.local.errors import LocalClusterError

_ROUND_S = 1.0
ALLOWANCE_S = 10.0
#: After what happened to sidecars and links.
_OURS_S = SESSION_TIMEOUT_S + _ROUND_S + ALLOWANCE_S
#: After what happened to brokers, the bookie and ZooKeeper.
_THEIRS_S = 5.0 + 13.0 + _ROUND_S + ALLOWANCE_S

_FLOOD = 1_000
_POLL_S = 0.05
_GONE_WITHIN_S = 60.0
_GARBAGE_PER_S = 200

#: What a mishap does to a stage, at the sidecar or broker of this name, for so many seconds.
Do = Callable[[Stage, str, float], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of mishap; what it excuses is explained at `checker.history.Mishap`.

    Attributes:
        what: for people, with {target} for where and {seconds} for how long.
        do: does it and undoes it.
        seconds: how long it lasts, from and to.
    """

    what: str
    do: Do
    seconds: tuple[float, float]
    recovery_s: float = _OURS_S
    cuts: bool = False
    delays: bool = False
    stops: bool = False
    outside: bool = False


def _kill_sidecar(stage: Stage, name: str, seconds: float) -> None:
    stage.sidecars.end(name, signal.SIGKILL)
    time.sleep(seconds)
    stage.sidecars.start(name, timeout_s=_GONE_WITHIN_S)


def _freeze_sidecar(stage: Stage, name: str, seconds: float) -> None:
    pid = stage.sidecars.pid(name)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def _roll_sidecars(stage: Stage, _: str, seconds: float) -> None:
    for name in stage.brokers:
        stage.sidecars.end(name, signal.SIGTERM)
        stage.sidecars.start(name, timeout_s=_GONE_WITHIN_S)
        time.sleep(seconds)


def _kill_broker(stage: Stage, name: str, seconds: float) -> None:
    _end_server(stage, name, signal.SIGKILL, seconds)
    stage.come_home()


def _restart_broker(stage: Stage, name: str, seconds: float) -> None:
    _end_server(stage, name, signal.SIGTERM, seconds)
    stage.come_home()


def _freeze_broker(stage: Stage, name: str, seconds: float) -> None:
    _freeze_server(stage, name, seconds)


def _kill_bookie(stage: Stage, _: str, seconds: float) -> None:
    _end_server(stage, "bookie", signal.SIGKILL, seconds)


def _freeze_bookie(stage: Stage, _: str, seconds: float) -> None:
    _freeze_server(stage, "bookie", seconds)


def _kill_zookeeper(stage: Stage, _: str, seconds: float) -> None:
    _end_server(stage, _leader(stage), signal.SIGKILL, seconds)


def _freeze_zookeeper(stage: Stage, _: str, seconds: float) -> None:
    _freeze_server(stage, _leader(stage), seconds)


def _end_server(stage: Stage, name: str, number: signal.Signals, seconds: float) -> None:
    stage.cluster.kill(name, number)
    time.sleep(seconds)
    stage.cluster.start_server(name)


def _freeze_server(stage: Stage, name: str, seconds: float) -> None:
    stage.cluster.kill(name, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        stage.cluster.kill(name, signal.SIGCONT)


def _leader(stage: Stage) -> str:
    """The ZooKeeper that leads the ensemble, or the only one."""
    for server in stage.cluster.state.zookeepers:
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 2.0) as peer:
            peer.sendall(b"srvr")
            with peer.makefile("rb") as answer:
                if b"Mode: follower" not in answer.read():
                    return server.name
    raise LocalClusterError("No ZooKeeper leads.")


def _linked(links: Callable[[Stage, str], tuple[Link, ...]], condition: Condition) -> Do:
    """Make these links be like this for a while."""

    def do(stage: Stage, name: str, seconds: float) -> None:
        with ExitStack() as stack:
            found = links(stage, name)
            stack.callback(stage.links.mend, *found)
            stage.links.become(condition, *found)
            time.sleep(seconds)

    return do


def _zookeeper(stage: Stage, name: str) -> tuple[Link, ...]:
    return stage.to_zookeeper[name]


def _bus(stage: Stage, name: str) -> tuple[Link, ...]:
    return stage.to_bus[name]


def _broker(stage: Stage, name: str) -> tuple[Link, ...]:
    return (stage.to_broker[name],)


def _flood(stage: Stage, name: str, seconds: float) -> None:
    address = ("127.0.0.1", stage.brokers[name].gate_port)
    with ExitStack() as stack:
        for _ in range(_FLOOD):
            stack.enter_context(socket.create_connection(address, 10.0))
        time.sleep(seconds)


def _exhaust_descriptors(stage: Stage, name: str, seconds: float) -> None:
    """Leave a sidecar no descriptor for a new connection, and keep asking for some."""
    pid = stage.sidecars.pid(name)
    in_use = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()) + 1
    address = ("127.0.0.1", stage.brokers[name].gate_port)
    with ExitStack() as stack:
        _limit(stack, pid, resource.RLIMIT_NOFILE, in_use)
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            with suppress(OSError):
                stack.enter_context(socket.create_connection(address, 1.0))
            time.sleep(_POLL_S)


def _fill_disk(stage: Stage, name: str, seconds: float) -> None:
    with ExitStack() as stack:
        _limit(stack, stage.sidecars.pid(name), resource.RLIMIT_FSIZE, 0)
        time.sleep(seconds)


def _limit(stack: ExitStack, pid: int, which: int, most: int) -> None:
    soft, hard = resource.prlimit(pid, which)
    stack.callback(resource.prlimit, pid, which, (soft, hard))
    resource.prlimit(pid, which, (most, hard))


def _consume_slowly(stage: Stage, name: str, seconds: float) -> None:
    client = _client(stage.sidecars.service_url)
    try:
        topic = stage.topic_of[name]
        consumer = client.subscribe(
            topic,
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
    finally:
        client.close()


def _spew_garbage(stage: Stage, _: str, seconds: float) -> None:
    broker = next(iter(stage.brokers.values()))
    client = _client(broker.service_url, listener_name="internal")
    try:
        producers = [
            client.create_producer(topic, batching_enabled=False)
            for topic in stage.sidecars.bus_topics
        ]
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            for producer in producers:
                producer.send_async(os.urandom(200), _ignore)
            time.sleep(1 / _GARBAGE_PER_S)
        for producer in producers:
            producer.flush()
    finally:
        client.close()


def _client(url: str, listener_name: str | None = None) -> pulsar.Client:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(url, listener_name=listener_name, logger=logger)


def _ignore(*_: object) -> None:
    """What becomes of garbage."""


_STALLED = Condition(stalled_out=True, stalled_back=True)
_LATE = Condition(delay_s=0.3, bytes_per_s=50_000, loss=0.1)
_FAST_ENOUGH = Condition(delay_s=0.02, bytes_per_s=400_000, loss=0.02)

MISHAPS: Mapping[str, Kind] = {
    "sidecar-kill": Kind(
        "the sidecar of {target} is killed and started again {seconds:.0f} s later",
        _kill_sidecar,
        (1, 3),
        cuts=True,
        stops=True,
    ),
    "sidecar-freeze": Kind(
        "the sidecar of {target} stands still for {seconds:.0f} s",
        _freeze_sidecar,
        (1, 3),
        delays=True,
        stops=True,
    ),
    "sidecar-long-freeze": Kind(
        "the sidecar of {target} stands still for {seconds:.0f} s, longer than its session",
        _freeze_sidecar,
        (SESSION_TIMEOUT_S + 2, SESSION_TIMEOUT_S + 5),
        delays=True,
        stops=True,
        outside=True,
    ),
    "sidecars-roll": Kind(
        "all sidecars are restarted one after the other",
        _roll_sidecars,
        (2, 3),
        cuts=True,
        stops=True,
    ),
    "broker-kill": Kind(
        "{target} is killed and started again {seconds:.0f} s later",
        _kill_broker,
        (1, 3),
        _THEIRS_S,
        cuts=True,
        delays=True,
        stops=True,
    ),
    "broker-restart": Kind(
        "{target} is restarted",
        _restart_broker,
        (0, 1),
        _THEIRS_S,
        cuts=True,
        delays=True,
        stops=True,
    ),
    "broker-freeze": Kind(
        "{target} stands still for {seconds:.0f} s",
        _freeze_broker,
        (1, 3),
        _THEIRS_S,
        cuts=True,
        delays=True,
        stops=True,
    ),
    "bookie-kill": Kind(
        "the bookie is killed and started again {seconds:.0f} s later",
        _kill_bookie,
        (1, 2),
        _THEIRS_S,
        cuts=True,
        delays=True,
        stops=True,
    ),
    "bookie-freeze": Kind(
        "the bookie stands still for {seconds:.0f} s",
        _freeze_bookie,
        (1, 3),
        _THEIRS_S,
        cuts=True,
        delays=True,
        stops=True,
    ),
    "zookeeper-kill": Kind(
        "the ZooKeeper that leads is killed and started again {seconds:.0f} s later",
        _kill_zookeeper,
        (2, 5),
        _THEIRS_S,
        delays=True,
    ),
    "zookeeper-freeze": Kind(
        "the ZooKeeper that leads stands still for {seconds:.0f} s",
        _freeze_zookeeper,
        (1, 3),
        _THEIRS_S,
        delays=True,
    ),
    "zookeeper-cut": Kind(
        "the sidecar of {target} is cut off from ZooKeeper for {seconds:.0f} s",
        _linked(_zookeeper, _STALLED),
        (1, 3),
    ),
    "session-expiry": Kind(
        "the sidecar of {target} is cut off from ZooKeeper for {seconds:.0f} s, past its session",
        _linked(_zookeeper, _STALLED),
        (SESSION_TIMEOUT_S + 3, SESSION_TIMEOUT_S + 6),
        outside=True,
    ),
    "zookeeper-mute": Kind(
        "the sidecar of {target} hears nothing from ZooKeeper for {seconds:.0f} s",
        _linked(_zookeeper, Condition(stalled_back=True)),
        (SESSION_TIMEOUT_S + 3, SESSION_TIMEOUT_S + 6),
        outside=True,
    ),
    "zookeeper-reset": Kind(
        "the sidecar of {target} is refused by ZooKeeper for {seconds:.0f} s",
        _linked(_zookeeper, Condition(severed=True)),
        (1, 3),
    ),
    "zookeeper-slow": Kind(
        "between the sidecar of {target} and ZooKeeper all is late, slow and lossy for {seconds:.0f} s",
        _linked(_zookeeper, _LATE),
        (5, 10),
        outside=True,
    ),
    "bus-cut": Kind(
        "the sidecar of {target} is cut off from the bus for {seconds:.0f} s",
        _linked(_bus, _STALLED),
        (5, 10),
    ),
    "bus-reset": Kind(
        "the sidecar of {target} is refused by the bus for {seconds:.0f} s",
        _linked(_bus, Condition(severed=True)),
        (2, 5),
    ),
    "bus-slow": Kind(
        "between the sidecar of {target} and the bus all is late, slow and lossy for {seconds:.0f} s",
        _linked(_bus, _LATE),
        (5, 10),
    ),
    "gate-cut": Kind(
        "the gate of {target} is cut off from its broker for {seconds:.0f} s",
        _linked(_broker, _STALLED),
        (1, 3),
        cuts=True,
        delays=True,
        stops=True,
    ),
    "gate-reset": Kind(
        "the gate of {target} is refused by its broker for {seconds:.0f} s",
        _linked(_broker, Condition(severed=True)),
        (1, 2),
        cuts=True,
        delays=True,
        stops=True,
    ),
    "gate-slow": Kind(
        "between the gate of {target} and its broker all is late, slow and lossy for {seconds:.0f} s",
        _linked(_broker, _FAST_ENOUGH),
        (5, 10),
        delays=True,
        stops=True,
    ),
    "flood": Kind(
        f"{_FLOOD:,} connections are opened at the gate of {{target}} for {{seconds:.0f}} s",
        _flood,
        (2, 5),
        delays=True,
    ),
    "descriptors": Kind(
        "the sidecar of {target} has no file descriptors left for {seconds:.0f} s",
        _exhaust_descriptors,
        (3, 6),
    ),
    "disk-full": Kind(
        "the sidecar of {target} cannot write to any file for {seconds:.0f} s",
        _fill_disk,
        (4, 8),
    ),
    "slow-consumer": Kind(
        "a consumer of the topic of {target} reads five messages a second for {seconds:.0f} s",
        _consume_slowly,
        (5, 10),
    ),
    "garbage": Kind(
        "somebody publishes garbage on the bus for {seconds:.0f} s",
        _spew_garbage,
        (5, 10),
    ),
}
