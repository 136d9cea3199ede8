"""Silent and half-open connections delay no other client, at a real sidecar's admin API and at its gate.

Attackers come from addresses of 127.0.0.0/8 that no other client has: each is a host of its own.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pulsar
import pytest

from coordinator.gate.server.supervisor import DEFAULT_PATIENCE
from tests.attacks.callers import Attacker, Caller, crowd, still_open
from tests.attacks.conftest import BROKER, Target
from tests.attacks.raw import CONNECT
from tests.config.nowhere import NOWHERE
from tests.integration.world import World, eventually

pytestmark = pytest.mark.cluster

HOSTS = tuple(f"127.0.0.{number}" for number in range(2, 8))
READY = b"GET /quota/v1/ready HTTP/1.1\r\n"
HALF_HEAD = READY + b"Host: localhost\r\nX-A: "
HALF_BODY = (
    b"PUT /admin/v2/resourcegroups/never-made HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Length: 100\r\n\r\n{"
)
DEADLINE_SLACK_S = 5.0
"""Sweeps come once a second, and a machine stands still now and then."""

AT_ONCE_S = 3.0
"""Far below each deadline here, and above what a busy machine adds."""


def assert_served(port: int, address: str) -> None:
    """Ten requests of a host, each on a new connection, are answered at once."""
    for _ in range(10):
        began_s = time.monotonic()
        assert Caller(port, address).ask("GET", "/quota/v1/ready").status == 200
        assert time.monotonic() - began_s < AT_ONCE_S


def assert_all_end(attackers: Sequence[Attacker], within_s: float) -> None:
    """The other side ends every connection."""
    eventually(lambda: still_open(attackers) == 0, "all are ended", within_s + DEADLINE_SLACK_S)


@pytest.mark.verify
def test_silent_callers_keep_no_seat_from_others(target: Target) -> None:
    """More of each host than one may have, and more hosts than there are seats for.

    Half of them say nothing, half say half a head. A caller of a host of theirs, and one of another host,
    are served at once; the silent ones end by the deadline, those that have said something with 408.
    """
    port, each = target.admin_port, NOWHERE.admin_connections_per_host + 10
    assert len(HOSTS) * NOWHERE.admin_connections_per_host > NOWHERE.admin_connections_max
    late = target.figure("api_refused_total", reason="head deadline")
    with crowd(port, HOSTS, each, b"", HALF_HEAD) as attackers:
        for address in ("127.0.0.1", HOSTS[0]):
            assert_served(port, address)
        stayed = still_open(attackers)
        assert 0 < stayed <= NOWHERE.admin_connections_max
        assert_all_end(attackers, NOWHERE.admin_request_seconds)
        heard = [each.heard for each in attackers if each.heard]
    assert {answer.split(b"\r\n")[0] for answer in heard} == {b"HTTP/1.1 408 Request Timeout"}
    assert target.figure("api_refused_total", reason="head deadline") >= late + stayed


@pytest.mark.verify
def test_half_a_body_from_every_seat_of_a_host_is_that_hosts_loss(target: Target) -> None:
    """Others are served at once; it is told so, and is served again when its bodies are late."""
    port, host = target.admin_port, HOSTS[0]
    with crowd(port, (host,), NOWHERE.admin_connections_per_host, HALF_BODY) as attackers:

        def is_turned_away() -> bool:
            if Caller(port, host).ask("GET", "/").status == 503:
                return True
            # It took the seat of an attacker whose head was not read yet; that of this one is by then.
            attackers.append(Attacker(port, host, HALF_BODY))
            return False

        eventually(is_turned_away, "its seats are taken")
        assert_served(port, "127.0.0.1")
        assert_all_end(attackers, NOWHERE.admin_request_seconds)
        answers = Counter(each.heard[:12] for each in attackers)
        assert answers[b"HTTP/1.1 408"] == NOWHERE.admin_connections_per_host
    assert_served(port, host)
    groups = target.world.get("/admin/v2/resourcegroups", at=BROKER)
    assert "never-made" not in groups


HALF_OPEN = NOWHERE.gate_connections_per_host_max


def latencies_s(producer: pulsar.Producer) -> list[float]:
    """The latencies of some publishes, one after the other."""
    found = []
    for _ in range(200):
        began_s = time.monotonic()
        producer.send(b"x" * 100)
        found.append(time.monotonic() - began_s)
    return found


@pytest.mark.verify
@pytest.mark.shows("pip-322/no-contention")
def test_half_open_connections_delay_no_publish(
    target: Target, free_world: World, connect: Callable[[str], pulsar.Client]
) -> None:
    """As many as a host may have, which is five thousand, silent or with half a CONNECT.

    The metrics count them, the broker is dialled for none of them, one more is reset at once, and all end
    by the deadline. A stock client publishes as before meanwhile, and a new one can connect.
    """
    topic, gate = free_world.topic_of[BROKER], f"pulsar://127.0.0.1:{target.port}"
    producer = connect(gate).create_producer(topic)
    usual_s = latencies_s(producer)
    late = "client did not say CONNECT in time"
    before = target.figure("gate_connections")
    ended = target.figure("gate_closes_total", reason=late)
    descriptors = open_descriptors(target)

    with crowd(target.port, HOSTS[:1], HALF_OPEN, b"", CONNECT[:-5]) as attackers:
        with crowd(target.port, HOSTS[:1], 1, b"") as one_more:
            eventually(lambda: still_open(one_more) == 0, "one too many is reset", AT_ONCE_S)
        eventually(lambda: target.figure("gate_connections") >= before + HALF_OPEN, "counted", 5)
        meanwhile_s = latencies_s(producer)
        connect(gate).create_producer(topic).send(b"new")
        assert still_open(attackers) > HALF_OPEN / 2, "the machine is too slow to tell"
        assert open_descriptors(target) <= descriptors + HALF_OPEN + 100
        assert_all_end(attackers, DEFAULT_PATIENCE.connect_s)

    assert statistics.median(meanwhile_s) < 2 * statistics.median(usual_s) + 0.005
    assert max(meanwhile_s) < max(usual_s) + AT_ONCE_S
    eventually(
        lambda: target.figure("gate_closes_total", reason=late) == ended + HALF_OPEN, "all counted"
    )
    too_many = "too many connections of one host"
    assert target.figure("gate_closes_total", reason=too_many) >= 1


def open_descriptors(target: Target) -> int:
    """File descriptors of the gate's process: two for each connection that has its broker's side."""
    pid = target.world.sidecars.gate(BROKER).pid
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
