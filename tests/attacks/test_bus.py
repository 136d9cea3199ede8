"""Compressed payloads that a client puts on the sidecars' bus: damaged, large, of a size that is a lie.

Pulsar's client library takes the compression off before a sidecar sees the payload, and does not survive
everything; it is in a process of its own for that.
"""

from __future__ import annotations

import pulsar
import pytest

from coordinator.core.model import UsageReport
from coordinator.core.topics import RESOURCE_USAGE_TOPIC
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.reports import encode
from coordinator.wire.signature import Signer
from deploy.local import processes
from tests.attacks.conftest import Target
from tests.attacks.raw import RawClient
from tests.conftest import Connect
from tests.gate import peer
from tests.integration.told import dropped_at, is_ready, members, sample
from tests.integration.world import World, eventually

pytestmark = pytest.mark.cluster

BROKERS = ("broker-1", "broker-2", "broker-3")
MEBIBYTE = 1 << 20

LARGE = 5 * MEBIBYTE - 64 * 1024
"""Nearly the most that a client library accepts when the compression is off."""

AT_FIRST, MANY = 5, 20
"""Large payloads by which a process gets the buffers that it keeps, and those that are measured."""

GROWTH_MAX = 48 * MEBIBYTE
"""Half of what `MANY` large payloads would take."""

LZ4, ZLIB, ZSTD, SNAPPY = range(1, 5)
"""CompressionType, as metadata say it."""


def in_the_name_of(world: World, broker: str) -> bytes:
    """The beginning of a report of a member, under a number that it has not come to."""
    incarnation = members(world, "broker-1")[broker]
    head = pb.ReportHead(broker=broker, incarnation=incarnation, sequence=2**40)
    return bytes(head.SerializeToString())


def large_payloads(world: World) -> dict[str, bytes]:
    """Payloads of five megabytes that compress well, by the reason for which they are dropped."""
    fields = b"\xa0\x38\x01"  # of no release, each a number of its own
    unread = peer.varint(900 << 3 | 2) + peer.varint(LARGE - 100) + bytes(LARGE - 100)
    return {
        "not a usage report": bytes(LARGE),
        "incarnation is missing": peer.message((1, "stranger")) + fields * (LARGE // 3 - 10),
        "foreign": in_the_name_of(world, "broker-2") + unread,
    }


def dropped(world: World, reason: str = "") -> list[int]:
    """Reports that each sidecar has dropped so far, for this reason or for any."""
    counts = [dropped_at(world, name) for name in BROKERS]
    return [sum(n for said, n in each.items() if reason in ("", said)) for each in counts]


def wait_for_more(world: World, before: list[int], count: int, reason: str = "") -> None:
    """Wait until every sidecar has dropped this many more."""
    eventually(
        lambda: all(
            now >= then + count for now, then in zip(dropped(world, reason), before, strict=True)
        ),
        f"{count} more are dropped {reason}",
    )


def is_on_the_bus(world: World, name: str) -> bool:
    """Whether every bus topic is connected at a sidecar."""
    series = [f'pulsar_quota_bus_connected{{topic="{each}"}}' for each in world.sidecars.bus_topics]
    return all(sample(world, name, each) == 1.0 for each in series)


def assert_all_is_well(world: World) -> None:
    """No task of any sidecar has failed, and each hears of the others on every topic."""

    def hears_of_others(name: str) -> bool:
        others = world.get("/quota/v1/health", at=name)["members"]
        ages_ms = [each["reportAgeMillis"] for each in others if each["broker"] != name]
        return is_ready(world, name) and is_on_the_bus(world, name) and max(ages_ms) < 10_000

    for name in BROKERS:
        assert world.get("/quota/v1/health", at=name)["failedTasks"] == []
        eventually(lambda: hears_of_others(name), f"{name} hears of the others")  # noqa: B023


def own_bytes(world: World) -> list[int]:
    """The own memory of each coordinator."""
    return [processes.own_bytes(world.sidecars.pid(name)) for name in BROKERS]


def test_large_compressed_payloads_are_refused_and_not_kept(
    target: Target, connect: Connect
) -> None:
    """A stranger's, and one in the name of a member: counted by their reasons, and gone."""
    world = target.world
    producer = connect(world.cluster.brokers[0].service_url).create_producer(
        world.sidecars.bus_topics[0],
        compression_type=pulsar.CompressionType.ZSTD,
        batching_enabled=False,
    )
    for reason, payload in large_payloads(world).items():
        before = dropped(world, reason)
        for _ in range(AT_FIRST):
            producer.send(payload)
        wait_for_more(world, before, AT_FIRST, reason)
        held = own_bytes(world)
        # One after the other: a topic without storage drops what comes too fast.
        for sent in range(MANY):
            producer.send(payload)
            wait_for_more(world, before, AT_FIRST + sent + 1, reason)
        grown = [now - then for now, then in zip(own_bytes(world), held, strict=True)]
        assert max(grown) < GROWTH_MAX, f"{reason}: {[each / MEBIBYTE for each in grown]} MiB"
    assert_all_is_well(world)


def test_no_client_publishes_to_the_bus_through_a_gate(target: Target, connect: Connect) -> None:
    """Each sidecar that reads it would lose its client at what Pulsar's library does not survive."""
    world = target.world
    client = connect(world.sidecars.service_url)
    for topic in (*world.sidecars.bus_topics, RESOURCE_USAGE_TOPIC):
        with pytest.raises(pulsar.NotAllowedError):
            client.create_producer(topic)
    assert_all_is_well(world)


def publish(compression: int, size: int, content: bytes) -> bytes:
    """A SEND whose content is said to be of this size when this compression is off."""
    metadata = peer.message((1, "p"), (2, 0), (3, 1), (8, compression), (9, size))
    head = peer.message((1, 6), (6, peer.message((1, 1), (2, 0))))
    return peer.frame(head, len(metadata).to_bytes(4, "big") + metadata + content)


def test_damaged_compression_ends_nothing(target: Target, connect: Connect) -> None:
    """Content that is not compressed, and sizes that are not its own; the next report is read."""
    world = target.world
    topic = world.sidecars.bus_topics[0]
    with RawClient(world.topics.owner(topic).broker_port) as client:
        assert client.open_producer(topic)
        for size in (0, 1, 100):
            client.send(publish(LZ4, size, b"\xff" * 100))
        for compression in (ZLIB, ZSTD, SNAPPY):
            for size in (0, 1, 1_000, LARGE):
                client.send(publish(compression, size, b"\xff" * 100))
    before = dropped(world, "no member")
    stranger = Signer().sign(encode(UsageReport("stranger", 1, 1, 1, ())))
    producer = connect(world.cluster.brokers[0].service_url).create_producer(topic)
    producer.send(stranger)

    wait_for_more(world, before, 1, "no member")
    assert_all_is_well(world)


def clients_ended(world: World) -> list[float]:
    """Ends of each sidecar's client of the bus so far."""
    series = "pulsar_quota_bus_clients_ended_total"
    return [sample(world, name, series) or 0.0 for name in BROKERS]


def not_handed_on(world: World) -> list[float]:
    """Messages that each sidecar's client of the bus has dropped so far."""
    series = "pulsar_quota_bus_dropped_total"
    return [sample(world, name, series) or 0.0 for name in BROKERS]


def pids(world: World) -> list[int]:
    """The processes of the coordinators and of the gates."""
    coordinators = [world.sidecars.pid(name) for name in BROKERS]
    return coordinators + [world.sidecars.gate(name).pid for name in BROKERS]


TEXT = "x" * 300 * 1024
"""More than the client of the bus hands on beside the content."""

NAMED: dict[str, tuple[peer.Field, ...]] = {
    "name of the producer": ((1, TEXT), (2, 0), (3, 1)),
    "one property": ((1, "p"), (2, 0), (3, 1), (4, peer.message((1, "k"), (2, TEXT)))),
    "name of a property": ((1, "p"), (2, 0), (3, 1), (4, peer.message((1, TEXT), (2, "v")))),
    "many properties": (
        (1, "p"), (2, 0), (3, 1), *((4, peer.message((1, f"k{n}"), (2, "v"))) for n in range(40_000)),
    ),
}  # fmt: skip
"""The fields of the metadata of a message with one of its parts larger than that."""


@pytest.mark.parametrize("part", NAMED)
def test_large_names_and_properties_end_nothing(
    target: Target, connect: Connect, part: str
) -> None:
    """They are dropped before they reach a coordinator; reports and the gate go on."""
    world = target.world
    publisher = connect(world.sidecars.service_url).create_producer(target.topic)
    topic, same = world.sidecars.bus_topics[0], pids(world)
    metadata = peer.message(*NAMED[part])
    head = peer.message((1, 6), (6, peer.message((1, 1), (2, 0))))
    large = peer.frame(head, len(metadata).to_bytes(4, "big") + metadata + b"x")
    before = not_handed_on(world)
    with RawClient(world.topics.owner(topic).broker_port) as client:
        assert client.open_producer(topic)

        def are_dropped() -> bool:
            # Again, for a topic without storage drops what no client is there to read.
            client.send(large)
            return all(
                now >= then + MANY for now, then in zip(not_handed_on(world), before, strict=True)
            )

        eventually(are_dropped, "each sidecar's client drops them")

    publisher.send(b"the gate goes on")
    assert_all_is_well(world)
    assert pids(world) == same


@pytest.mark.parametrize("compression", [LZ4, ZLIB, ZSTD, SNAPPY])
def test_a_size_that_is_a_lie_ends_the_client_of_the_bus_and_nothing_else(
    target: Target, connect: Connect, compression: int
) -> None:
    """The library reads beyond the end of LZ4, and allocates gigabytes for any."""
    world = target.world
    producer = connect(world.sidecars.service_url).create_producer(target.topic)
    topic, before, same = world.sidecars.bus_topics[0], clients_ended(world), pids(world)
    with RawClient(world.topics.owner(topic).broker_port) as client:
        assert client.open_producer(topic)

        def have_ended() -> bool:
            # Again, for a topic without storage drops what no client is there to read.
            for size in (LARGE, 2**32 - 1):
                client.send(publish(compression, size, b"\xff" * 100))
            ended = clients_ended(world)
            return all(now > then for now, then in zip(ended, before, strict=True))

        eventually(have_ended, "the clients of the bus have ended")

    producer.send(b"the gate goes on")
    assert_all_is_well(world)
    assert pids(world) == same


def test_a_damaged_report_is_refused_in_compressed_form_as_well(
    target: Target, connect: Connect
) -> None:
    """That of a member, as it has just sent it, with a byte that is another one."""
    world = target.world
    client = connect(world.cluster.brokers[0].service_url)
    topic = world.sidecars.bus_topics[0]
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    producer = client.create_producer(
        topic, compression_type=pulsar.CompressionType.LZ4, batching_enabled=False
    )
    report = reader.read_next(30_000).data()
    before = dropped(world)
    for place in range(len(report) - 20, len(report)):
        producer.send(report[:place] + bytes([report[place] ^ 0xFF]) + report[place + 1 :])

    wait_for_more(world, before, 20)
    assert_all_is_well(world)
