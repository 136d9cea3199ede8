"""Refusals and credit on real brokers, with stock Python (C++) and Java clients."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pulsar
import pytest

from deploy.clients import quiet_client
from tests.clients.releases import java_program
from tests.integration.world import World, eventually

pytestmark = pytest.mark.cluster

LIMIT, FAST, SLOW = 40, 400, 20
"""Messages per second of the group; sent at once; sent one by one, each after the former's answer."""

JAVA = "4.2.4"


@pytest.fixture
def strict_order(world: World) -> World:
    """A world whose brokers drop what they have seen, and whose group refuses after 300 ms."""
    path = f"/admin/v2/namespaces/{world.namespace}/deduplication"
    world.http.post(world.cluster.brokers[0].web_url + path, json=True).raise_for_status()
    world.limit(publishRateInMsgs=LIMIT, onLimit="refuse", holdMillis=300)
    return world


@pytest.fixture
def client(world: World) -> Iterator[pulsar.Client]:
    """A stock client at the gates."""
    with closing(quiet_client(world.sidecars.service_url)) as client:
        yield client


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
def test_a_python_client_over_the_limit_is_refused_and_goes_on(
    strict_order: World, client: pulsar.Client, batched: bool
) -> None:
    """With deduplication on: what was acknowledged is stored once and in order, and nothing else."""
    topic = strict_order.topic_of["broker-1"]
    outcomes: dict[int, str] = {}
    done = threading.Semaphore(0)

    def send(number: int) -> None:
        def sent(result: pulsar.Result, _: object) -> None:
            outcomes[number] = "ok" if result == pulsar.Result.Ok else str(result)
            done.release()

        producer.send_async(str(number).encode(), sent)

    producer = client.create_producer(
        topic,
        producer_name="refused",
        batching_enabled=batched,
        batching_max_messages=10,
        max_pending_messages=FAST + SLOW,
    )
    before = connections(strict_order)
    for number in range(FAST):
        send(number)
    with suppress(pulsar.ChecksumError):  # of the first message that is refused
        producer.flush()
    wait_for(done, FAST)
    # Of 40 an idle broker holds nothing ready: it has its part once both peers have answered.
    eventually(lambda: strict_order.local_limit("broker-1") > LIMIT // 2, "most of the limit")
    for number in range(FAST, FAST + SLOW):
        time.sleep(0.1)
        send(number)
        wait_for(done, 1)
    assert producer.is_connected()
    assert connections(strict_order) == before, "the client has connected again"
    check(strict_order, client, topic, outcomes, refused_as="Checksum")


@pytest.mark.verify
@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
def test_a_java_client_over_the_limit_is_refused_and_goes_on(
    strict_order: World, client: pulsar.Client, batched: bool
) -> None:
    """The same, with the error that Java takes for final."""
    topic = strict_order.topic_of["broker-2"]
    launch = java_program(JAVA, "RefusedProgram.java")
    arguments = (strict_order.sidecars.service_url, topic, str(batched).lower())
    done = subprocess.run(
        [*launch.command, *arguments, str(FAST), str(SLOW)],
        env={**os.environ, **launch.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    outcomes = {int(line[0]): line[1] for line in lines if len(line) == 2 and line[0].isdigit()}
    assert ["disconnected", "0"] in lines, "the client has connected again"
    check(strict_order, client, topic, outcomes, refused_as="NotAllowed")


def wait_for(done: threading.Semaphore, times: int) -> None:
    """Wait for the outcomes of this many messages."""
    for _ in range(times):
        assert done.acquire(timeout=60), "a message has no outcome"


def connections(world: World) -> set[str]:
    """The clients of the first broker's gate that publish."""
    found = world.get("/quota/v1/gate/connections", at="broker-1")
    rows: list[dict[str, Any]] = found if isinstance(found, list) else found["connections"]
    return {row["peer"] for row in rows if row["producers"]}


def check(
    world: World,
    client: pulsar.Client,
    topic: str,
    outcomes: dict[int, str],
    refused_as: str,
) -> None:
    """Judge what a client was told by what the topic has, and by what the sidecars count."""
    assert set(outcomes) == set(range(FAST + SLOW))
    acknowledged = [number for number in sorted(outcomes) if outcomes[number] == "ok"]
    others = Counter(outcome for outcome in outcomes.values() if outcome != "ok")
    assert all(refused_as in outcome for outcome in others), others
    refused = sum(others.values())
    assert refused >= FAST // 2
    assert all(outcomes[number] == "ok" for number in range(FAST, FAST + SLOW))
    assert list(stored(client, topic)) == acknowledged

    def counted() -> bool:
        name = next(name for name, each in world.topic_of.items() if each == topic)
        explained = world.explained(name)
        return bool(
            explained["refused"] == refused and f"{refused:,} messages did" in explained["sentence"]
        )

    eventually(counted, "the refused messages are told")


def stored(client: pulsar.Client, topic: str) -> Iterator[int]:
    """The numbers of all messages that a topic has."""
    earliest = pulsar.MessageId.earliest
    reader = client.create_reader(topic, earliest)
    with suppress(pulsar.Timeout):
        while True:
            yield int(reader.read_next(60_000 if reader.has_message_available() else 500).data())
    reader.close()


@pytest.mark.verify
def test_credit_of_an_idle_time_passes_at_once_and_the_limit_holds_then(
    world: World, client: pulsar.Client
) -> None:
    """Five seconds of the limit, by the broker's counter; after that no more than the limit."""
    limit, burst_s = 100, 5
    world.limit(publishRateInMsgs=limit, burstSeconds=burst_s)
    topic = world.topic_of["broker-1"]
    producer = client.create_producer(topic, batching_enabled=False, max_pending_messages=10_000)
    producer.send(b"first")
    eventually(lambda: world.local_limit("broker-1") >= limit * 0.9, "the only broker has it all")
    certified = world.get(f"/quota/v1/certificate/{world.group}")["certificates"][0]
    assert certified["burst"] >= certified["most"] * burst_s
    time.sleep(burst_s + 1.5)

    before, began_s = world.topics.counters(topic).messages_in, time.monotonic()
    for number in range(3_000):
        producer.send_async(str(number).encode(), None)
    seen: list[tuple[float, int]] = []
    while time.monotonic() < began_s + 8.0:
        asked_s = time.monotonic()
        seen.append((asked_s - began_s, world.topics.counters(topic).messages_in - before))
        time.sleep(0.1)
    credit = 0.9 * limit * burst_s
    early = [at_s for at_s, passed in seen if passed >= credit]
    # At the limit alone this would take 4.5 s.
    assert early
    assert early[0] <= 3.0, seen[:30]
    for at_s, passed in seen:
        assert passed <= limit * (burst_s + at_s + 1.0) + 10, (at_s, passed)
    (first_s, first), (last_s, last) = next(each for each in seen if each[0] > 4.0), seen[-1]
    assert last - first <= limit * (last_s - first_s + 0.65), seen[-40:]
    assert last - first >= limit * (last_s - first_s) * 0.7, seen[-40:]


GROUPS = "/admin/v2/resourcegroups"


IMPOSSIBLE: tuple[tuple[dict[str, object], str], ...] = (
    ({"onLimit": "drop"}, "onLimit"),
    ({"onLimit": 1}, "onLimit"),
    ({"onLimit": ["refuse"]}, "onLimit"),
    ({"holdMillis": -1}, "holdMillis"),
    ({"holdMillis": 600_001}, "holdMillis"),
    ({"holdMillis": 0.5}, "holdMillis"),
    ({"holdMillis": "soon"}, "holdMillis"),
    ({"burstSeconds": -1}, "burstSeconds"),
    ({"burstSeconds": 3_601}, "burstSeconds"),
    ({"burstSeconds": 1.5}, "burstSeconds"),
    ({"burstSeconds": 10**30}, "burstSeconds"),
    ({"burstSeconds": True}, "burstSeconds"),
    ({"burstSeconds": {"s": 5}}, "burstSeconds"),
    ({"onlimit": "refuse"}, "onlimit"),
)
"""Bodies that no group can have, and the field that the answer must name."""


def test_values_that_no_group_can_have_are_refused_by_name(world: World) -> None:
    """Nothing is changed, not even by the valid part of the body."""
    path = f"{GROUPS}/{world.group}"
    world.put(path, {"publishRateInMsgs": 100, "onLimit": "refuse", "burstSeconds": 2}, "broker-1")
    before = world.get(f"/quota/v1/groups/{world.group}")
    url = world.sidecars.admin_url("broker-1") + path
    for body, field in IMPOSSIBLE:
        answer = world.http.put(url, json={"publishRateInMsgs": 7, **body})
        assert answer.status_code == 400, (body, answer.text)
        assert field in answer.text, (body, answer.text)
        assert world.get(f"/quota/v1/groups/{world.group}") == before, body


def test_trees_that_cannot_be_kept_are_refused_by_name_and_half_of_none_is_applied(
    world: World,
) -> None:
    """Each by a PUT at a real sidecar; the definitions are the same afterwards at every sidecar."""
    top, child, other = (f"{world.group}{end}" for end in ("", "-child", "-other"))
    world.put(f"{GROUPS}/{top}", {"publishRateInMsgs": 1000}, "broker-1")
    world.put(f"{GROUPS}/{child}", {"parent": top, "publishGuaranteeInMsgs": 600}, "broker-1")
    world.put(f"{GROUPS}/{other}", {"parent": top, "publishRateInMsgs": 500}, "broker-1")
    above = top
    for level in range(3, 9):
        below = f"{child}-{level}"
        world.put(f"{GROUPS}/{below}", {"parent": child if level == 3 else above}, "broker-1")
        above = below
    names = [top, child, other, *(f"{child}-{level}" for level in range(3, 9))]
    hostile: list[tuple[str, dict[str, object], str]] = [
        (top, {"parent": f"{child}-3"}, "parent: no group can be above itself"),
        (child, {"parent": child}, "parent: no group can be above itself"),
        (other, {"parent": f"{world.group}-gone"}, "parent: there is no resource group"),
        (f"{child}-9", {"parent": above}, "more than 8 levels"),
        (other, {"publishGuaranteeInMsgs": 501}, "publishGuaranteeInMsgs: 501 is more than"),
        (other, {"publishGuaranteeInMsgs": 401}, "would add up to 1,001"),
        (top, {"publishRateInMsgs": 599}, "would add up to 600"),
        (other, {"publishGuaranteeInBytes": 1}, "publishGuaranteeInBytes: neither"),
        (other, {"weight": 0}, "weight"),
        (other, {"weight": 1001}, "weight"),
        (other, {"weight": "heavy"}, "weight"),
        (other, {"parent": "../x"}, "parent"),
        (other, {"parent": ["a"]}, "parent"),
        (other, {"publishGuaranteeInMsgs": -1}, "publishGuaranteeInMsgs"),
        (other, {"publishGuaranteeInMsgs": 2**63}, "publishGuaranteeInMsgs"),
        (child, {"overshootPolicy": "strict"}, "overshootPolicy: strict is for the root"),
        (top, {"overshootPolicy": "eager"}, "overshootPolicy: eager is not possible"),
        (top, {"burstSeconds": 5}, "burstSeconds"),
        (top, {"onLimit": "refuse"}, "onLimit"),
    ]
    before = {name: world.get(f"/quota/v1/groups/{name}") for name in names}
    for name, body, told in hostile:
        url = world.sidecars.admin_url("broker-1") + f"{GROUPS}/{name}"
        answer = world.http.put(url, json=body | {"dispatchRateInMsgs": 77})
        assert answer.status_code == 400, (name, body, answer.status_code, answer.text)
        assert told in answer.text, (name, body, answer.text)
    deleted = world.http.delete(world.sidecars.admin_url("broker-1") + f"{GROUPS}/{top}")
    assert deleted.status_code == 412, deleted.text
    gone = world.http.get(world.sidecars.admin_url("broker-1") + f"{GROUPS}/{child}-9")
    assert gone.status_code == 404
    for broker in world.topic_of:
        eventually(
            lambda at=broker: (
                {name: world.get(f"/quota/v1/groups/{name}", at=at) for name in names}  # type: ignore[misc]
                == before
            ),
            f"{broker} has the definitions as they were",
        )
    for name in reversed(names):
        url = world.sidecars.admin_url("broker-1") + f"{GROUPS}/{name}"
        world.http.delete(url).raise_for_status()
