"""Real clients through real gates: the local limits that three sidecars come to, to the message.

A broker whose clients want more than its part is saturated, however slow the machine is, and the limits
follow from that alone. The rates that pass are measured in test_limits.py and test_dispatch.py.
"""

from __future__ import annotations

import signal

import pulsar
import pytest

from deploy.local.sidecars import BUS_NAMESPACE
from tests.conftest import Connect, Figure
from tests.integration.test_dispatch_shared import KINDS, consumed
from tests.integration.told import DROPPED, held, sample
from tests.integration.world import World, eventually

pytestmark = pytest.mark.cluster

ADMITTED = "pulsar_quota_admitted_messages_total"
PUBLISH, DISPATCH = "publishRateInMsgs", "dispatchRateInMsgs"


def limits(world: World, dimension: str = PUBLISH) -> list[int | float]:
    """The local limits of the three brokers, each as its own sidecar has it."""
    return [row[dimension] for row in world.local_limits().values()]


def come_to(world: World, *expected: int, dimension: str = PUBLISH) -> None:
    """Wait until the local limits are these."""
    eventually(lambda: limits(world, dimension) == list(expected), f"local limits {expected}")


@pytest.mark.shows(
    "pip-82/namespace-limit", "pip-82/fair-sharing", "pip-82/local-limiter", "pip-322/group-level"
)
def test_saturated_brokers_have_equal_parts_also_after_a_sidecar_was_killed(
    world: World, figure: Figure
) -> None:
    """3,000 and 3,000 wanted of 900: half each, less what an idle broker holds ready; then a third."""
    world.limit(publishRateInMsgs=900)
    with world.load({"broker-1": 3000, "broker-2": 3000}):
        come_to(world, 450, 449, 1)
        world.sidecars.end("broker-2", signal.SIGKILL)
        world.sidecars.start("broker-2")
        come_to(world, 450, 449, 1)
        with world.load({"broker-3": 3000}):
            come_to(world, 300, 300, 300)
            figure("pip-82/fair-sharing", "450 / 449 / 1, then 300 / 300 / 300 of 900")
            world.put(f"/admin/v2/resourcegroups/{world.group}", {PUBLISH: 1800}, at="broker-3")
            come_to(world, 600, 600, 600)
            figure("pip-82/quota-changes", "600 / 600 / 600 after 900 became 1,800")


def test_a_limit_below_one_a_second_and_broker_is_shared_in_fractions(world: World) -> None:
    """Two a second of three brokers, then one, and one in two seconds: each has a third."""
    world.limit(publishRateInMsgs=2)
    with world.load(dict.fromkeys(world.topic_of, 100)):
        thirds_of(world, "0.667/s of the 2/s.")
        world.put(f"/admin/v2/resourcegroups/{world.group}", {PUBLISH: 1}, at="broker-3")
        thirds_of(world, "0.333/s of the 1/s.")
        world.put(f"/admin/v2/resourcegroups/{world.group}", {PUBLISH: 0.5}, at="broker-2")
        thirds_of(world, "0.167/s of the 0.5/s.")


def thirds_of(world: World, rates: str) -> None:
    """Wait until each sidecar says that its broker gets this of the limit."""
    for name in world.topic_of:
        told = f"{name} gets {rates}"
        eventually(lambda n=name, told=told: told in world.explained(n)["sentence"], told)  # type: ignore[misc]


@pytest.mark.shows("pip-82/quota-changes")
def test_nothing_passes_a_limit_of_zero_until_it_is_lifted(world: World, connect: Connect) -> None:
    """0 means nothing, not unlimited as in Pulsar; what waited has its receipts when -1 lifts it."""
    world.limit(publishRateInMsgs=0)
    come_to(world, 0, 0, 0)
    topic = world.topic_of["broker-1"]
    client = connect(world.sidecars.service_url)
    producer = client.create_producer(topic, batching_enabled=False)
    receipts: list[pulsar.Result] = []
    for _ in range(100):
        producer.send_async(b"x", lambda result, _: receipts.append(result))
    eventually(lambda: held(world) == 100, "all are held")
    assert world.topics.counters(topic).messages_in == 0
    assert receipts == []
    world.put(f"/admin/v2/resourcegroups/{world.group}", {PUBLISH: -1}, at="broker-2")
    eventually(lambda: receipts == [pulsar.Result.Ok] * 100, "all have their receipts")
    assert world.topics.counters(topic).messages_in == 100


def test_what_a_closing_producer_is_told_has_failed_is_never_published(
    world: World, connect: Connect
) -> None:
    """Its close is answered while all it sent is held, and its name is free at once."""
    world.limit(publishRateInMsgs=0)
    come_to(world, 0, 0, 0)
    topic = world.topic_of["broker-1"]
    client = connect(world.sidecars.service_url)
    results: list[pulsar.Result] = []

    def send(messages: int) -> pulsar.Producer:
        producer = client.create_producer(topic, producer_name="orders", batching_enabled=False)
        for _ in range(messages):
            producer.send_async(b"x", lambda result, _: results.append(result))
        return producer

    dropped = sample(world, "broker-1", DROPPED) or 0
    producer = send(200)
    eventually(lambda: held(world) == 200, "all are held")
    producer.close()
    assert results == [pulsar.Result.AlreadyClosed] * 200
    eventually(lambda: held(world) == 0, "none is held")
    assert sample(world, "broker-1", DROPPED) == dropped + 200

    again = send(1)
    world.put(f"/admin/v2/resourcegroups/{world.group}", {PUBLISH: -1}, at="broker-2")
    eventually(lambda: results[200:] == [pulsar.Result.Ok], "it has its receipt")
    assert world.topics.counters(topic).messages_in == 1
    again.close()


def test_a_topic_beside_the_bus_is_limited_like_any_other(world: World, connect: Connect) -> None:
    """Its namespace exempts no publish; the reports of the sidecars do not pass a gate."""
    topic = f"non-persistent://{BUS_NAMESPACE}/beside"
    gate = world.topics.owner(topic).name
    namespace = f"{world.sidecars.admin_url('broker-2')}/admin/v2/namespaces/{BUS_NAMESPACE}"
    admitted = f'{ADMITTED}{{group="{world.group}",monitoring_class="Publish"}}'
    world.limit(publishRateInMsgs=0)
    try:
        world.attach(BUS_NAMESPACE)
        come_to(world, 0, 0, 0)
        client = connect(world.sidecars.service_url)
        producer = client.create_producer(topic, batching_enabled=False)
        receipts: list[pulsar.Result] = []
        for _ in range(100):
            producer.send_async(b"x", lambda result, _: receipts.append(result))
        eventually(lambda: held(world, gate) == 100, "all are held")
        assert receipts == []
        world.put(f"/admin/v2/resourcegroups/{world.group}", {PUBLISH: -1}, at="broker-2")
        eventually(lambda: receipts == [pulsar.Result.Ok] * 100, "all have their receipts")
        eventually(lambda: sample(world, gate, admitted) == 100, "all are counted")
    finally:
        world.http.delete(f"{namespace}/resourcegroup").raise_for_status()


def test_a_strict_limit_is_shared_and_survives_the_death_of_a_sidecar(world: World) -> None:
    """Halves, then thirds, then thirds again; at rest they add up to no more than the limit."""
    world.limit(publishRateInMsgs=900, overshootPolicy="strict")

    def reach(least: tuple[int, ...]) -> None:
        def at_rest() -> bool:
            """The three are asked one after the other: quota that moves meanwhile is seen twice."""
            found = limits(world)
            shared = all(each >= low for each, low in zip(found, least, strict=True))
            return shared and found == limits(world) and sum(found) <= 900

        eventually(at_rest, f"at least {least}, of 900 together")

    with world.load({"broker-1": 3000, "broker-2": 3000}):
        reach((448, 448, 0))
        with world.load({"broker-3": 3000}):
            reach((298, 298, 298))
            world.sidecars.end("broker-3", signal.SIGKILL)
            world.sidecars.start("broker-3")
            reach((298, 298, 298))


@pytest.mark.shows("pip-82/producers-and-consumers", "pip-322/dispatch")
def test_consumers_at_three_brokers_have_a_third_of_a_dispatch_limit_each(
    world: World, connect: Connect, figure: Figure
) -> None:
    """200 of 600 each, for four kinds of subscription in turn, while more is published than that."""
    world.limit(dispatchRateInMsgs=600)
    clients = [connect(world.sidecars.service_url) for _ in range(2)]
    topics = list(world.topic_of.values())
    with world.load(dict.fromkeys(world.topic_of, 600)):
        for name in KINDS:
            with consumed(clients, topics, name):
                come_to(world, 200, 200, 200, dimension=DISPATCH)
                figure("pip-322/dispatch", f"{name} 200 / 200 / 200 of 600")
