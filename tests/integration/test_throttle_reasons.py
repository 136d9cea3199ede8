"""PIP-322's five reasons to throttle a connection, at a real broker: each alone, and all at once.

Three limits hold back (broker, topic, resource group), and two bounds stop a connection from being read:
publishes that wait for their receipts, and memory for messages that are held. To have publishes without
receipts the bookie stands still for a moment. None of them holds back geo-replication of a named peer.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pulsar
import pytest

from deploy.local.cluster import Cluster
from deploy.local.configuration import CLUSTER_NAME
from tests.attacks.raw import ERROR, SUCCESS, RawClient
from tests.conftest import Connect, Figure, Measure
from tests.gate import peer
from tests.integration.sliding import Counted
from tests.integration.steady import Steady
from tests.integration.test_topic_limits import in_force, limit_topic
from tests.integration.told import sample
from tests.integration.windows import hold, windows
from tests.integration.world import (
    TENANT,
    World,
    eventually,
    make_world,
    world_of_others,
)

pytestmark = pytest.mark.cluster

BROKER = "broker-1"
PENDING = 20
BUFFER = 16 << 20
HALF = BUFFER // 2
"""The most of it that what waits for one limit may hold."""
#: Messages of two connections that together do not fit there.
LARGE, LARGE_BYTES = 45, 100_000
#: Messages that fit into what is left to another limit, and some that a socket takes.
FITS, FEW = 30, 5
FILLING = 21
"""Entries of that size that consumers of one limit may hold: half of a quarter, and one apart."""
SUBSCRIBES = 2
SETTINGS: dict[str, object] = {
    "pending_publish_requests_max": PENDING,
    "publish_buffer_bytes_max": BUFFER,
    "subscribe_rate_per_consumer": SUBSCRIBES,
    "subscribe_rate_period_seconds": 3_600,
    "replication_peer_addresses": ["127.0.0.1"],
}
RECEIPT, MESSAGE, CLOSE_CONSUMER, PONG = 7, 9, 16, 19
REASONS = {
    "group": "resource group",
    "topic": "topic limit",
    "broker": "broker limit",
    "bookie": "pending publish requests",
    "memory": "publish buffer",
}


@pytest.fixture(scope="module")
def bounded(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Sidecars with small bounds."""
    directory = tmp_path_factory.mktemp("bounded")
    with world_of_others(cluster, directory, SETTINGS) as world:
        yield world


def connection_at_gate(world: World, raw: RawClient) -> Any:
    """The gate's figures of a connection."""
    rows = world.get("/quota/v1/gate/connections?limit=200", at=BROKER)
    return next(row for row in rows if row["peer"] == raw.address)


class Client:
    """A producer on a connection of its own, to a topic of `BROKER`."""

    def __init__(self, world: World, raw: RawClient, topic: str) -> None:
        self._world, self._raw, self.topic = world, raw, topic
        assert raw.open_producer(topic)
        self.sent = 0

    def sends(self, count: int, size: int = 100) -> None:
        """Publish this many messages, in one piece."""
        numbers = range(self.sent, self.sent + count)
        content = b"x" * size
        frames = (peer.send(1, each, content=content, checksum=False) for each in numbers)
        assert self._raw.send(b"".join(frames))
        self.sent += count

    @property
    def receipts(self) -> int:
        """Return the number of them that the broker has stored."""
        return self._raw.counted(RECEIPT)

    @property
    def at_gate(self) -> Any:
        """The gate's figures of the connection."""
        return connection_at_gate(self._world, self._raw)

    def times(self, reason: str) -> int:
        """Return how often this reason has held something back."""
        return int(self.at_gate["throttles"].get(REASONS[reason], 0))

    @property
    def passed(self) -> int:
        """Return the broker's count of the topic's messages."""
        return self._world.topics.counters(self.topic).messages_in


@contextmanager
def client(world: World, topic: str = "") -> Iterator[Client]:
    """Connect to the gate of `BROKER`."""
    port = world.cluster.broker(BROKER).gate_port
    with RawClient(port) as raw:
        yield Client(world, raw, topic or world.topic_of[BROKER])


class Conditions:
    """The reasons: what brings each about, and what ends it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.begin: dict[str, Callable[[], None]] = {
            "group": lambda: self._limit_group(0),
            "topic": lambda: self._limit_topic(0),
            "broker": lambda: self.limit_broker(0),
            "bookie": lambda: world.cluster.kill("bookie", signal.SIGSTOP),
        }
        self.end: dict[str, Callable[[], None]] = {
            "group": lambda: self._limit_group(-1),
            "topic": self._lift_topic,
            "broker": lambda: self.limit_broker(-1),
            "bookie": lambda: world.cluster.kill("bookie", signal.SIGCONT),
        }

    def all_end(self) -> None:
        """End all, those that are over, too."""
        for end in self.end.values():
            with suppress(httpx.HTTPError):
                end()

    def limit_broker(self, rate: int) -> None:
        """Have the gate of `BROKER` read another limit."""
        world = self._world
        world.sidecars.reload(BROKER, {"broker_publish_rate_in_msgs": rate})
        eventually(lambda: gate_limits(world)["broker"]["publishRateInMsgs"] == rate, "SIGHUP")

    def _limit_group(self, rate: int) -> None:
        self._world.limit(publishRateInMsgs=rate)
        eventually(lambda: self._world.local_limit(BROKER) == rate, "the group's limit")
        gate_limits(self._world)  # what the gate was told before is in force when it answers

    def _limit_topic(self, rate: int) -> None:
        topic = self._world.topic_of[BROKER]
        limit_topic(self._world, topic, rate)
        eventually(
            lambda: in_force(self._world, topic, BROKER).get("rate") == rate, "the topic's limit"
        )

    def _lift_topic(self) -> None:
        topic = self._world.topic_of[BROKER]
        path = f"/quota/v1/{topic.replace('://', '/')}/publishRate"
        url = self._world.sidecars.admin_url(BROKER) + path
        self._world.http.delete(url).raise_for_status()
        eventually(lambda: not in_force(self._world, topic, BROKER), "no limit of the topic")


def gate_limits(world: World) -> Any:
    """The gate's own limits, as it enforces them."""
    return world.get("/quota/v1/gate/limits", at=BROKER)


@pytest.fixture
def conditions(bounded: World) -> Iterator[Conditions]:
    """The reasons, none of which is left to the next test."""
    made = Conditions(bounded)
    made.all_end()
    yield made
    made.all_end()


@pytest.mark.shows("pip-322/levels", "pip-322/broker-level", "pip-322/pending-requests")
@pytest.mark.parametrize("reason", ["group", "topic", "broker", "bookie"])
def test_each_reason_alone_holds_a_producer_back(
    bounded: World, conditions: Conditions, reason: str
) -> None:
    """It is counted under its name, and when it ends everything passes."""
    with client(bounded) as producer:
        conditions.begin[reason]()
        before = producer.passed
        producer.sends(PENDING + 30)
        eventually(lambda: producer.times(reason) >= 1, "the reason is counted")

        others = REASONS.keys() - {reason}
        assert [producer.times(other) for other in others] == [0] * len(others)
        assert producer.receipts == 0
        if reason == "bookie":
            assert producer.at_gate["unanswered"] == PENDING
            assert producer.at_gate["pausedFor"] == [REASONS[reason]]
        else:
            assert producer.passed == before
            assert producer.at_gate["pausedFor"] == []
        conditions.end[reason]()
        eventually(lambda: producer.receipts == producer.sent, "everything passes")


def fill(first: Client, second: Client) -> None:
    """Have two connections hold messages until there is no more room."""
    first.sends(LARGE, LARGE_BYTES)
    eventually(lambda: first.at_gate["heldFrames"] == LARGE, "all are held")
    second.sends(LARGE, LARGE_BYTES)
    eventually(lambda: second.times("memory") == 1, "no more room")
    assert first.times("memory") == 0


@pytest.mark.shows("pip-322/publish-buffer")
def test_memory_of_held_messages_is_bounded_for_all_connections_together(
    bounded: World, conditions: Conditions
) -> None:
    """Two connections that wait for one limit share half of it; one that needs none of it passes."""
    free = make_world(bounded.cluster, bounded.sidecars, bounded.http, f"{TENANT}/unlimited")
    with (
        client(bounded) as first,
        client(bounded) as second,
        client(free, free.topic_of[BROKER]) as other,
    ):
        conditions.begin["group"]()
        fill(first, second)
        frame_bytes = first.at_gate["heldBytes"] // LARGE
        at_gate = second.at_gate
        whole_bytes = frame_bytes * (LARGE + at_gate["heldFrames"])
        assert HALF - 2 * frame_bytes < whole_bytes <= HALF
        # Nothing is kept of the frame that has no room.
        assert at_gate["heldBytes"] - frame_bytes * at_gate["heldFrames"] < frame_bytes
        assert second.at_gate["pausedFor"] == [REASONS["memory"]]
        other.sends(10)
        eventually(lambda: other.receipts == 10, "a connection that needs no memory passes")
        assert first.receipts == second.receipts == 0

        conditions.end["group"]()
        eventually(lambda: first.receipts == second.receipts == LARGE, "everything passes")


def another(bounded: World) -> World:
    """A namespace of another group, at the same brokers and gates."""
    return make_world(bounded.cluster, bounded.sidecars, bounded.http, f"{TENANT}/beside")


def test_another_group_keeps_its_room_for_publishes(bounded: World, conditions: Conditions) -> None:
    """A slow group fills its part on six connections; of another one all is held, and read further."""
    other = another(bounded)
    of_other = Conditions(other)
    with ExitStack() as connections:
        slow = [connections.enter_context(client(bounded)) for _ in range(6)]
        victim = connections.enter_context(client(other, other.topic_of[BROKER]))
        conditions.begin["group"]()
        of_other.begin["group"]()
        fill(slow[0], slow[1])
        for each in slow[2:]:
            each.sends(FEW, LARGE_BYTES)
        eventually(lambda: all(each.times("memory") for each in slow[1:]), "they have no more room")

        victim.sends(FITS, LARGE_BYTES)
        eventually(lambda: victim.at_gate["heldFrames"] == FITS, "all of another group is held")
        assert victim.times("memory") == 0
        assert victim.at_gate["pausedFor"] == []
        of_other.end["group"]()
        eventually(lambda: victim.receipts == FITS, "it passes by its own group's limit")
        assert [each.receipts for each in slow] == [0] * len(slow)

        conditions.end["group"]()
        eventually(lambda: all(each.receipts == each.sent for each in slow), "everything passes")


class Consumer:
    """A subscription of a topic of `BROKER`, on a connection of its own, with many permits.

    Subscriptions are limited by consumer id, so each has another one.
    """

    def __init__(self, world: World, raw: RawClient, topic: str, consumer_id: int) -> None:
        self._world, self._raw = world, raw
        assert raw.open_consumer(topic, consumer_id)
        # The broker has the permits when it has answered what came behind them.
        assert raw.ask(peer.flow(consumer_id, 1_000) + peer.PING, {PONG}) is not None

    @property
    def at_gate(self) -> Any:
        """The gate's figures of the connection."""
        return connection_at_gate(self._world, self._raw)

    @property
    def received(self) -> int:
        """Messages that have come."""
        return self._raw.counted(MESSAGE)

    @property
    def is_closed(self) -> bool:
        """Whether the gate has closed it."""
        return self._raw.counted(CLOSE_CONSUMER) > 0


@contextmanager
def dispatch_stopped(world: World) -> Iterator[Callable[[], None]]:
    """Have the world's group receive nothing, until what is returned is called."""

    def limit(rate: int) -> None:
        world.limit(dispatchRateInMsgs=rate)
        eventually(
            lambda: world.local_limits()[BROKER]["dispatchRateInMsgs"] == rate, "the group's limit"
        )
        gate_limits(world)  # what the gate was told before is in force when it answers

    limit(0)
    try:
        yield lambda: limit(-1)
    finally:
        limit(-1)


def test_another_group_keeps_its_room_for_deliveries(bounded: World, connect: Connect) -> None:
    """Of four consumers of a slow group one fills its part; of another group's all is held."""
    other = another(bounded)
    port = bounded.cluster.broker(BROKER).gate_port

    topics = {world.namespace: next_topic(world, "consumed") for world in (bounded, other)}

    def publish(world: World, count: int) -> None:
        direct = connect(world.cluster.broker(BROKER).service_url)
        producer = direct.create_producer(topics[world.namespace], batching_enabled=False)
        for _ in range(count):
            producer.send(bytes(LARGE_BYTES))

    with ExitStack() as opened:

        def consumer(world: World, consumer_id: int) -> Consumer:
            raw = opened.enter_context(RawClient(port))
            return Consumer(world, raw, topics[world.namespace], consumer_id)

        slow = [consumer(bounded, 10 + number) for number in range(4)]
        victim = consumer(other, 20)
        lift_slow, lift_other = (
            opened.enter_context(dispatch_stopped(world)) for world in (bounded, other)
        )
        publish(bounded, FILLING)
        eventually(lambda: sum(each.is_closed for each in slow) == 3, "the others are closed")
        (left,) = [each for each in slow if not each.is_closed]
        eventually(lambda: left.at_gate["heldFrames"] == FILLING, "one fills its part")

        publish(other, FEW)
        eventually(lambda: victim.at_gate["heldFrames"] == FEW, "all of another group is held")
        assert not victim.is_closed
        lift_other()
        eventually(lambda: victim.received == FEW, "it passes by its own group's limit")
        assert [each.received for each in slow] == [0] * len(slow)

        lift_slow()
        eventually(lambda: left.received == FILLING, "everything passes")


@pytest.mark.shows("pip-322/five-reasons")
@pytest.mark.parametrize(
    "order",
    [("bookie", "topic", "broker", "group"), ("group", "bookie", "broker", "topic")],
    ids=" ".join,
)
def test_all_reasons_at_once_must_all_be_gone(
    bounded: World, conditions: Conditions, order: tuple[str, ...], figure: Figure
) -> None:
    """The 20 publishes that went before get their receipts; of those behind, none passes too early."""
    other = next_topic(bounded)
    with (
        client(bounded) as producer,
        client(bounded, other) as first,
        client(bounded, other) as second,
    ):
        before = producer.passed
        conditions.begin["bookie"]()
        producer.sends(PENDING)
        eventually(lambda: producer.at_gate["unanswered"] == PENDING, "publishes without receipts")
        for reason in ("group", "topic", "broker"):
            conditions.begin[reason]()
        fill(first, second)
        producer.sends(30)
        eventually(lambda: producer.times("bookie") == 1, "those behind are not read")

        for reason in order:
            assert producer.receipts in {0, PENDING}
            conditions.end[reason]()
            if reason == "bookie":
                eventually(lambda: producer.receipts == PENDING, "the receipts of those before")
            if reason != order[-1]:
                # What the gate was told is in force when it answers; and a broker that had got
                # one more publish would have counted it.
                assert producer.at_gate["peer"]
                assert producer.passed - before in {0, PENDING}
        eventually(lambda: producer.receipts == PENDING + 30, "everything passes")
        eventually(lambda: first.receipts == second.receipts == LARGE, "and all others")
        counted = {REASONS[name]: producer.times(name) for name in REASONS}
    told = ", ".join(f"{name} {count}" for name, count in counted.items() if count)
    figure("pip-322/five-reasons", f"held by {told}; 0 of 30 passed before the last was gone")


def next_topic(world: World, name: str = "other") -> str:
    """Another topic at `BROKER`, in the same namespace."""
    topics = (f"persistent://{world.namespace}/{name}-{number}" for number in range(60))
    return next(topic for topic in topics if world.topics.owner(topic).name == BROKER)


@pytest.mark.verify
@pytest.mark.shows("pip-82/stricter-acts", "pip-322/levels")
def test_of_all_levels_the_strictest_acts(
    bounded: World, conditions: Conditions, measured: Measure, figure: Figure
) -> None:
    """100 of the topic, 200 of the broker, 300 of the group: as one is lifted, the next one acts."""
    world, topic = bounded, bounded.topic_of[BROKER]
    world.limit(publishRateInMsgs=300)
    limit_topic(world, topic, 100)
    conditions.limit_broker(200)
    passed = []
    with Steady(world.sidecars.service_url, {topic: 100}) as load:
        load.offers({topic: 500})
        for expected, lift in ((100, "topic"), (200, "broker"), (300, "")):
            world.comes_to(
                lambda rates, expected=expected: rates[BROKER] == pytest.approx(expected, rel=0.1),  # type: ignore[misc]
                f"about {expected}",
                windows=1,
            )
            seen = world.windows(3)
            hold(measured, f"limits down to {expected}", seen, {BROKER: expected})
            passed.append(f"{seen[0][BROKER]:,.0f}")
            if lift:
                conditions.end[lift]()
    figure("pip-82/stricter-acts", f"{', '.join(passed)} of 100, 200, 300")


@pytest.mark.shows("pip-322/subscribe")
def test_who_subscribes_too_often_is_refused(bounded: World) -> None:
    """Two in an hour; the third is refused as Pulsar does it."""
    port = bounded.cluster.broker(BROKER).gate_port
    topic = bounded.topic_of[BROKER]
    with RawClient(port) as raw:
        for request in range(SUBSCRIBES):
            assert raw.open_consumer(topic, consumer_id=99, request_id=request)
            close = peer.command(16, (1, 99), (2, 100 + request))
            assert raw.ask(close, {SUCCESS}) is not None
        assert not raw.open_consumer(topic, consumer_id=99, request_id=50)
        assert raw.counted(ERROR) == 1
        assert raw.open_consumer(topic, consumer_id=98, request_id=51), "another consumer"


@pytest.mark.verify
@pytest.mark.shows("pip-322/fairness", "pip-322/release")
def test_producers_that_wait_have_equal_shares(
    bounded: World, conditions: Conditions, connect: Connect, measured: Measure, figure: Figure
) -> None:
    """Five clients with 10 to 400 messages in their queues get a fifth each; then all are released."""
    world, topic = bounded, bounded.topic_of[BROKER]
    conditions.end["group"]()
    limit_topic(world, topic, 200)
    queues = (10, 25, 50, 100, 400)
    senders = [Sender(connect(world.sidecars.service_url), topic, queue) for queue in queues]
    for sender in senders:
        sender.start()
    try:
        eventually(
            lambda: (
                in_force(world, topic, BROKER).get("rate") == 200
                and all(sender.receipts > 20 for sender in senders)
            ),
            "all of them publish",
        )

        def counted() -> Counted:
            at_s = time.monotonic()
            return {
                f"queue of {queue}": (sender.receipts, at_s)
                for queue, sender in zip(queues, senders, strict=True)
            }

        seen = windows(counted, 5)
    finally:
        for sender in senders:
            sender.stop()
    eventually(lambda: all(sender.waiting == 0 for sender in senders), "all are released")
    hold(measured, "a fifth of 200", seen, {f"queue of {queue}": 40 for queue in queues})
    shares = " / ".join(f"{100 * part / sum(seen[0].values()):.1f}" for part in seen[0].values())
    figure("pip-322/fairness", f"{shares} % with queues of {', '.join(map(str, queues))}")


class Sender:
    """A client that always has as many messages waiting as its queue holds."""

    def __init__(self, client: pulsar.Client, topic: str, queue: int) -> None:
        self._producer = client.create_producer(
            topic, batching_enabled=False, block_if_queue_full=True, max_pending_messages=queue,
            send_timeout_millis=0,
        )  # fmt: skip
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.sent = 0
        self.receipts = 0

    @property
    def waiting(self) -> int:
        """Messages without a receipt."""
        return self.sent - self.receipts

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more."""
        self._stopping.set()
        self._thread.join(60)

    def _send(self) -> None:
        while not self._stopping.is_set():
            self.sent += 1
            self._producer.send_async(b"x" * 100, self._take)

    def _take(self, _result: pulsar.Result, _id: object) -> None:
        self.receipts += 1


@contextmanager
def replicated(world: World) -> Iterator[str]:
    """A topic of `BROKER` that its broker replicates to another cluster: the same one, by the gate."""
    gate = world.cluster.broker(BROKER)
    api, tenant = f"{gate.web_url}/admin/v2", f"{TENANT}-replicated"
    elsewhere = {
        "serviceUrl": gate.web_url,
        "brokerServiceUrl": f"pulsar://127.0.0.1:{gate.gate_port}",
    }
    both = [CLUSTER_NAME, "elsewhere"]

    def put(path: str, body: object) -> None:
        world.http.put(f"{api}/{path}", json=body).raise_for_status()

    put("clusters/elsewhere", elsewhere)
    put(f"tenants/{tenant}", {"allowedClusters": both, "adminRoles": []})
    put(f"namespaces/{tenant}/both", {"bundles": {"numBundles": 12}, "replication_clusters": both})
    try:
        yield world.topics.one_for_each_broker(f"{tenant}/both", "t")[BROKER]
    finally:
        replication = f"{api}/namespaces/{tenant}/both/replication"
        world.http.post(replication, json=[CLUSTER_NAME]).raise_for_status()


@pytest.mark.shows("pip-82/replication-exempt")
def test_no_limit_holds_back_the_replication_of_a_named_peer(
    bounded: World, connect: Connect, figure: Figure
) -> None:
    """A broker's own replicator passes a hundred messages through the gate, where 0 may pass."""
    world = bounded
    with replicated(world) as topic:
        namespace = topic.removeprefix("persistent://").rpartition("/")[0]
        world.limit(publishRateInMsgs=0)
        path = f"/admin/v2/namespaces/{namespace}/resourcegroup"
        attached = f"{world.sidecars.admin_url('broker-2')}{path}/{world.group}"
        world.http.post(attached).raise_for_status()
        of_broker = world.sidecars.admin_url(BROKER) + path
        eventually(
            lambda: (
                world.local_limit(BROKER) == 0 and world.group in world.http.get(of_broker).text
            ),
            "the gate's own sidecar knows",
        )
        stats = f"{world.cluster.web_url()}/admin/v2/{topic.replace('://', '/')}/stats"

        def at_broker() -> Any:
            return world.http.get(stats).raise_for_status().json()

        eventually(lambda: at_broker()["replication"]["elsewhere"]["connected"], "a replicator")
        with client(world, topic) as other:
            other.sends(10)
            eventually(lambda: other.times("group") >= 1, "another client is held")
            direct = connect(world.cluster.brokers[0].service_url).create_producer(topic)
            for _ in range(100):
                direct.send(b"x")
            eventually(lambda: at_broker()["msgInCounter"] == 200, "what was sent and its copies")
            assert other.receipts == 0
        series = "pulsar_quota_gate_replicated_messages_total"  # not there while the gate is slow
        eventually(lambda: sample(world, BROKER, series) == 100, "the gate has counted the copies")
        world.limit(publishRateInMsgs=-1)
    figure("pip-82/replication-exempt", "100 of 100 replicated, 0 of 10 of another client passed")
