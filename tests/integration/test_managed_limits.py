"""The limits of a managed Pulsar, reproduced on real brokers.

Groups have windows of a second; the whole cluster has a specification. Topics and partitions have that
service's soft limit: broker-1 checks it every 50 ms, broker-2 every 200 ms, and broker-3 has a bucket, so
that all three can be seen beside each other.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
import pulsar
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.conftest import Connect, Figure, Measure
from tests.integration.sliding import Counted
from tests.integration.steady import Steady
from tests.integration.test_topic_limits import in_force, limit_topic
from tests.integration.timed import Timed
from tests.integration.windows import hold, windows, written
from tests.integration.world import (
    PATIENCE_S,
    TENANT,
    World,
    eventually,
    make_world,
    other_sidecars,
)

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

CLUSTER = "whole-cluster"
SETTINGS = {
    "cluster_group": CLUSTER,
    "limit_mode": "window",
    "topic_limit_mode": "soft",
}
OTHERS: Mapping[str, Mapping[str, object]] = {
    "broker-2": {"topic_limit_check_seconds": 0.2},
    "broker-3": {"topic_limit_mode": "bucket"},
}
UNLIMITED = dict.fromkeys(
    (
        f"partition_{way}_rate_in_{unit}"
        for way in ("publish", "dispatch")
        for unit in ("msgs", "bytes")
    ),
    -1,
)
PARTITIONS = 36
WINDOWS = 6
"""Windows in a row that are judged together."""


@pytest.fixture(scope="module")
def managed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecars]:
    """Sidecars that limit as that service does."""
    directory = tmp_path_factory.mktemp("managed")
    with other_sidecars(cluster, directory, SETTINGS, OTHERS) as own:
        yield own


@pytest.fixture
def world(cluster: Cluster, managed: Sidecars, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace of the test."""
    name = request.node.name.removeprefix("test_")
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield make_world(cluster, managed, http, f"{TENANT}/managed-{name[:30]}")


def batches(moments: Sequence[float], gap_s: float = 0.3) -> list[list[float]]:
    """Moments that are closer together than this."""
    found: list[list[float]] = [[moments[0]]]
    for before, after in pairwise(moments):
        if after - before > gap_s:
            found.append([])
        found[-1].append(after)
    return found


@pytest.mark.shows(
    "service-cluster/window",
    "service-cluster/in-a-slow-second",
    "service-cluster/publish-stops",
    "service-cluster/throttle-count",
    "service-cluster/minute-average",
    "service-cluster/throttled-seconds",
)
def test_the_101st_of_100_messages_in_400_ms_waits_for_600_ms(world: World, figure: Figure) -> None:
    """The example of the service; a client that stood still for a moment begins once more."""
    world.limit(publishRateInMsgs=100)
    with Timed(world, "broker-1") as client:
        eventually(lambda: world.local_limit("broker-1") == 100, "the limit")
        client.publishes(401)
        client.waits_for_all()
        # What comes behind a full window comes at the beginning of the next one.
        began_s = batches(client.receipts_s)[-1][0]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            took_s, waited_s, rest_s, before_s = hundred_and_one(client, began_s)
            if (
                took_s == pytest.approx(0.4, rel=0.03)
                and waited_s == pytest.approx(0.6, rel=0.03)
                and before_s < 0.1
            ):
                break
            assert rest_s > 0.95, "never before the window has ended"
            assert time.monotonic() < deadline, f"never 600 ms; at last {waited_s} s, {before_s} s"
        figure("service-cluster/window", f"{1000 * waited_s:.0f} ms, after {1000 * took_s:.0f} ms")
        assert rest_s == pytest.approx(1.0, abs=0.05), "from the beginning of the window"

        slow_s = 0.96
        while True:
            _, after_s, _, before_s = hundred_and_one(client, began_s, slow_s)
            if max(before_s, after_s) < 0.1:
                break
            assert time.monotonic() < deadline + 60, f"never at once; at last {before_s} s"
        figure("service-cluster/in-a-slow-second", f"{1000 * before_s:.0f} ms, after {slow_s} s")

    minute = world.explained("broker-1")["minute"]
    assert minute["throttledSeconds"] >= 1
    assert minute["averagePerSecond"] < 100
    told = f"{minute['throttledSeconds']} of {minute['seconds']} s, average "
    figure("service-cluster/minute-average", f"{told}{minute['averagePerSecond']}/s of 100/s")
    windows = metric(world, "broker-1", "throttled_messages_windows_total", group=world.group)
    assert windows >= minute["throttledSeconds"]

    with Steady(world.sidecars.service_url, {world.topic_of["broker-1"]: 100}) as load:
        load.offers({world.topic_of["broker-1"]: 300})
        eventually(lambda: holds(world, "Throttled", world.group), "clients wait: a condition")


def hundred_and_one(
    client: Timed, began_s: float, over_s: float = 0.4
) -> tuple[float, float, float, float]:
    """Send 100 messages in the first 400 ms of a window, or over another time, and one more.

    Return how long the 100 took, how long the last one waited, that from the window's beginning, and how
    long the hundredth waited.
    """
    window_s = began_s + int(time.monotonic() - began_s) + 2.0  # a whole one between two trials
    first = len(client.sent_s)
    for number in range(100):
        time.sleep(max(0.0, window_s + over_s * number / 100 + 0.002 - time.monotonic()))
        client.publishes(1)
    time.sleep(max(0.0, window_s + over_s - time.monotonic()))
    client.publishes(1)
    client.waits_for_all()
    receipts_s, sent_s = client.receipts_s[first:], client.sent_s[first:]
    before_s, waited_s = (receipts_s[at] - sent_s[at] for at in (-2, -1))
    return sent_s[-1] - window_s, waited_s, receipts_s[-1] - window_s, before_s


def metric(world: World, broker: str, name: str, **labels: str) -> float:
    """A sample of a sidecar's metrics."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    text = world.http.get(f"{world.sidecars.admin_url(broker)}/metrics").text
    return sum(
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith(f"pulsar_quota_{name}{{") and all(part in line for part in wanted)
    )


def holds(world: World, kind: str, subject: str) -> bool:
    """Whether this condition holds at any of the sidecars."""
    return any(
        (found["condition"], found["subject"]) == (kind, subject)
        for broker in world.topic_of
        for found in world.get("/quota/v1/conditions", at=broker)
    )


class Consumer:
    """Takes whatever comes, and notes when."""

    def __init__(self, client: pulsar.Client, topic: str, *, is_soft: bool = False) -> None:
        self.is_soft = is_soft
        self._lock = threading.Lock()
        self.came_s: list[float] = []
        self._consumer = client.subscribe(topic, "audit", message_listener=self._take)

    def _take(self, consumer: Any, message: Any) -> None:
        with self._lock:
            self.came_s.append(time.monotonic())
        consumer.acknowledge(message)

    def moments(self) -> list[float]:
        """When messages came until now."""
        with self._lock:
            return list(self.came_s)

    def close(self) -> None:
        """Take no more."""
        self._consumer.close()


def fill(client: pulsar.Client, topic: str, count: int) -> None:
    """Give a topic's subscription a backlog."""
    client.subscribe(topic, "audit").close()
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in range(count):
        producer.send_async(str(number).encode(), lambda *_: None)
    producer.flush()
    producer.close()


@dataclass(frozen=True)
class Pulse:
    """The arrivals of messages that wait for windows: means of some windows in a row."""

    size: float
    period_s: float
    took_s: float

    @classmethod
    def of(cls, moments: Sequence[float]) -> Pulse | None:
        """The last `WINDOWS` of these moments, without the one under way; None while there are fewer."""
        found = batches(moments)[-WINDOWS - 2 : -1] if moments else []
        if len(found) <= WINDOWS:
            return None
        whole = found[:-1]
        return cls(
            statistics.fmean(map(len, whole)),
            (found[-1][0] - found[0][0]) / WINDOWS,
            statistics.median(each[-1] - each[0] for each in whole),
        )


@pytest.mark.shows("service-cluster/dispatch-stops", "service-partition/consumer")
def test_no_message_is_pushed_until_the_next_window(
    world: World, connect: Connect, figure: Figure
) -> None:
    """A group's 100 messages a second come at once, a second apart; a topic's soft limit gives more."""
    grouped = world.topic_of["broker-3"]
    alone = make_world(world.cluster, world.sidecars, world.http, f"{world.namespace}-alone")
    limited = alone.topic_of["broker-1"]
    client = connect(world.sidecars.service_url)
    fill(client, grouped, 4000)
    fill(client, limited, 8000)
    world.limit(dispatchRateInMsgs=100)
    path = f"/quota/v1/{limited.replace('://', '/')}/dispatchRate"
    body = {"dispatchThrottlingRateInMsg": 100}
    world.http.post(world.sidecars.admin_url("broker-1") + path, json=body).raise_for_status()
    eventually(lambda: bool(in_force(world, limited, "broker-1")), "the topic's limit")
    eventually(
        lambda: world.local_limits()["broker-3"]["dispatchRateInMsgs"] <= 100, "the group's limit"
    )
    pulses_like(Consumer(client, grouped), "service-cluster/dispatch-stops", figure)
    pulses_like(Consumer(client, limited, is_soft=True), "service-partition/consumer", figure)


def pulses_like(consumer: Consumer, row: str, figure: Figure) -> None:
    """Wait until some windows in a row have what a limit of 100 gives, and nothing for their rest.

    The first windows are of a limit that is still growing, and a client that stands still takes what
    two of them have at once.
    """
    pulse: Pulse | None = None

    def fits() -> bool:
        nonlocal pulse
        pulse = Pulse.of(consumer.moments())
        if pulse is None or pulse.period_s != pytest.approx(1.0, rel=0.03) or pulse.took_s >= 0.5:
            return False
        # A soft limit gives what comes between two checks besides.
        return pulse.size >= 100 if consumer.is_soft else pulse.size == pytest.approx(100, rel=0.03)

    deadline = time.monotonic() + 35  # 100 a second of 4,000, or 250 of 8,000
    while not fits():
        assert time.monotonic() < deadline, f"never like a window; at last {pulse}"
        time.sleep(0.25)
    consumer.close()
    assert pulse is not None
    told = f"{pulse.size:.0f} every {pulse.period_s:.2f} s, within {1000 * pulse.took_s:.0f} ms"
    figure(row, told)


@pytest.mark.shows("service-cluster/ratio", "service-cluster/over-80")
def test_a_specification_is_split_between_production_and_consumption(
    world: World, connect: Connect, measured: Measure, figure: Figure
) -> None:
    """800 with a production share of a quarter: 200 published and 600 consumed, on three brokers."""
    client = connect(world.sidecars.service_url)
    topics = list(world.topic_of.values())
    for topic in topics:
        fill(client, topic, 6000)
    path = "/quota/v1/cluster/specification"
    world.put(path, {"rateInMsgs": 800, "productionShare": 0.25}, at="broker-2")
    consumers = [Consumer(client, topic) for topic in topics]
    try:
        with Steady(world.sidecars.service_url, dict.fromkeys(topics, 100)) as load:
            load.offers(dict.fromkeys(topics, 150))
            expected = {"published": 200, "consumed": 600}
            arrive(lambda: throughput(world), expected)
            # A broker's quota passes at the beginning of a second: one in fifteen more or less is seen.
            seen = windows(lambda: throughput(world), 15, number=2)
            hold(measured, "800, a quarter of it published", seen, expected, 0.07)
            figure("service-cluster/ratio", f"{written(seen)} of 200 and 600")

            eventually(lambda: holds(world, "GroupNearLimit", CLUSTER), "the condition")
            eventually(lambda: len(world.get(path)["advice"]) == 2, "advice on both")
            told = [each["sentence"] for each in world.get(path)["advice"]]
            assert [each.split()[0] for each in told] == ["Production", "Consumption"]
            figure("service-cluster/over-80", told[0])
    finally:
        for consumer in consumers:
            consumer.close()
        world.put(path, {"rateInMsgs": -1}, at="broker-2")


def throughput(world: World) -> Counted:
    """Return the messages that all brokers have taken in and sent, and the moment of the reading."""
    asked_s = time.monotonic()
    found = [world.topics.counters(topic) for topic in world.topic_of.values()]
    middle_s = (asked_s + time.monotonic()) / 2
    return {
        "published": (sum(c.messages_in for c in found), middle_s),
        "consumed": (sum(c.messages_out for c in found), middle_s),
    }


@pytest.mark.shows(
    "service-partition/check", "service-partition/overshoot", "service-cluster/in-flight"
)
def test_a_soft_limit_is_exceeded_by_what_comes_between_two_checks(
    world: World, measured: Measure, figure: Figure
) -> None:
    """Limit 100, offered 900: what waits passes at once, and then what comes before the check.

    A client with 30 messages waiting passes 30 + 45 in the first 50 ms, which is not too much, and 120
    in two checks; with a check every 200 ms it is 210. A bucket passes 100.
    """
    for topic in world.topic_of.values():
        limit_topic(world, topic, 100)
    for broker, topic in world.topic_of.items():
        eventually(lambda b=broker, t=topic: in_force(world, t, b).get("rate") == 100, "limits")  # type: ignore[misc]
    sizes = dict.fromkeys(world.topic_of.values(), 100)
    expected = {"broker-1": 120, "broker-2": 210, "broker-3": 100}
    with Steady(world.sidecars.service_url, sizes, queue=30) as load:
        load.offers(dict.fromkeys(sizes, 900))
        world.comes_to(
            lambda rates: rates == pytest.approx(expected, rel=0.2), f"about {expected}", windows=1
        )
        seen = world.windows(6)
    for name, rate in expected.items():
        # How much of that comes in time is the client's affair: between the limit and the whole of it.
        least, most = (97.0, 103.0) if name == "broker-3" else (100.0, 1.1 * rate)
        worst = max((each[name] for each in seen), key=lambda found, rate=rate: abs(found - rate))  # type: ignore[misc]
        measured(f"100 with checks, {name}", worst, "/s", least=least, most=most)
    told = f"{written(seen)} of 100 with checks of 50 ms, 200 ms, a bucket"
    figure("service-partition/overshoot", told)


@pytest.mark.shows("service-partition/soft", "service-partition/producer-sees")
def test_a_soft_limit_stops_a_producer_until_the_second_ends(world: World, figure: Figure) -> None:
    """All of a burst passes, however much; what comes behind it waits, for at most a second."""
    topic = world.topic_of["broker-1"]
    limit_topic(world, topic, 100)
    eventually(lambda: in_force(world, topic, "broker-1").get("rate") == 100, "the limit")
    with Timed(world, "broker-1") as client:
        # A window begins with what was stopped in the one before.
        client.publishes(400)
        time.sleep(0.1)
        client.publishes(1)
        client.waits_for_all()
        began_s = client.receipts_s[-1]
        waits_s = []
        for window in range(1, 6):
            at_s = began_s + 1.5 * window + 0.5 * (window % 2)  # every other one, at its beginning
            time.sleep(max(0.0, at_s + 0.01 - time.monotonic()))
            client.publishes(400)
            time.sleep(0.2)
            client.publishes(1)
            client.waits_for_all()
            waits_s.append(client.receipts_s[-1] - client.sent_s[-1])
    assert client.receipts_s[399] - client.sent_s[0] < 0.9, "the first burst"
    assert max(waits_s) < 1.1
    assert statistics.median(waits_s) > 0.3, "they waited for the end of the window"
    figure("service-partition/soft", f"at most {max(waits_s):.2f} s")


@pytest.mark.shows("service-partition/limits", "service-partition/over-80")
def test_each_partition_has_limits_of_its_own_and_advice(
    world: World, connect: Connect, measured: Measure, figure: Figure
) -> None:
    """Two partitions at one broker: 100 in and 60 out each; then 20 kB in and 10 kB out each."""
    broker = "broker-3"
    parts = partitions_at(world, broker)
    client = connect(world.sidecars.service_url)
    consumers = [Consumer(client, part) for part in parts]
    try:
        with Steady(world.sidecars.service_url, dict.fromkeys(parts, 100)) as load:
            reload(world, broker, partition_publish_rate_in_msgs=100)
            load.offers(dict.fromkeys(parts, 90))
            eventually(lambda: holds(world, "PartitionNearLimit", parts[0]), "a condition")
            advised = advice(world, broker, parts[0])
            assert advised["advisedPartitions"] > advised["partitions"] == PARTITIONS
            figure("service-partition/over-80", advised["advice"])

            load.offers(dict.fromkeys(parts, 200))
            reload(
                world,
                broker,
                partition_publish_rate_in_msgs=100,
                partition_dispatch_rate_in_msgs=60,
            )
            messages = pass_at(world, measured, parts, (100, 60), messages=True)
            reload(
                world,
                broker,
                partition_publish_rate_in_bytes=20_000,
                partition_dispatch_rate_in_bytes=10_000,
            )
            size = pass_at(world, measured, parts, (20_000, 10_000), messages=False)
    finally:
        for consumer in consumers:
            consumer.close()
        reload(world, broker)
    figure("service-partition/limits", f"{messages} messages/s; {size} B/s, in and out")


def reload(world: World, broker: str, **limits: int) -> None:
    """Set limits of partitions at a broker, and no others."""
    world.sidecars.reload(broker, UNLIMITED | limits)


def partitions_at(world: World, broker: str) -> list[str]:
    """Two of a topic's partitions, at this broker."""
    path = f"persistent/{world.namespace}/parts"
    url = f"{world.cluster.web_url()}/admin/v2/{path}/partitions"
    world.http.put(url, json=PARTITIONS).raise_for_status()
    names = [f"persistent://{world.namespace}/parts-partition-{n}" for n in range(PARTITIONS)]
    owned = [name for name in names if world.topics.owner(name).name == broker]
    assert len(owned) > 1, "a third of the bundles is its"
    return owned[:2]


def advice(world: World, broker: str, part: str) -> Any:
    """Return the gate's row of a partition."""
    rows = world.get("/quota/v1/gate/partitions", at=broker)
    return next(row for row in rows if row["topic"] == part)


def arrive(count: Callable[[], Counted], expected: Mapping[str, float]) -> None:
    """Wait until these rates are about what they are to be, for more than a moment.

    What a consumer had asked for before the limit comes unlimited, and then nothing until that is paid
    for: between the two, one window has any rate.
    """
    about = pytest.approx(expected, rel=0.15)
    eventually(lambda: all(each == about for each in windows(count, 2, 2)), f"about {expected}")


def pass_at(
    world: World,
    measured: Measure,
    parts: Sequence[str],
    expected: tuple[int, int],
    *,
    messages: bool,
) -> str:
    """Wait until each partition takes in and sends about these rates, then hold three windows to them."""

    def counted() -> Counted:
        found: dict[str, tuple[int, float]] = {}
        for order, part in zip(("first", "second"), parts, strict=True):
            each, at_s = world.topics.counters(part), time.monotonic()
            taken = each.messages_in if messages else each.bytes_in
            sent = each.messages_out if messages else each.bytes_out
            found |= {f"{order} in": (taken, at_s), f"{order} out": (sent, at_s)}
        return found

    wanted = dict(zip(counted(), expected * len(parts), strict=True))
    arrive(counted, wanted)
    seen = windows(counted, 5)
    hold(measured, "messages" if messages else "bytes", seen, wanted)
    return written(seen)
