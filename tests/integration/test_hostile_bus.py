"""A client that may publish on the bus and is no sidecar changes nothing, by default.

No key is configured here. What a sidecar does that lies with a key of its own is shown by a member
that the test registers in ZooKeeper itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, cycle

import pulsar
import pytest
from kazoo.client import KazooClient

from coordinator.core.model import GroupUsage, MonitoringClass, Usage, UsageReport
from coordinator.wire.documents import MemberDocument, encode_member
from coordinator.wire.reports import encode
from coordinator.wire.signature import Signer
from tests.conftest import Connect
from tests.integration.told import (
    degradations,
    dropped_at,
    is_ready,
    members,
    sample,
    wait_for_dropped,
)
from tests.integration.world import World, eventually

pytestmark = pytest.mark.cluster

LIMIT = 3000
SECOND_NS = 10**9
FORGED_S = 30.0
BROKERS = ("broker-1", "broker-2", "broker-3")


class Rogue:
    """A member of the sidecars that says what it likes, with a key of its own.

    Args:
        zookeeper: connected.
        producer: on a bus topic.
    """

    name = "rogue"

    def __init__(self, zookeeper: KazooClient, producer: pulsar.Producer) -> None:
        self._producer = producer
        self._signer = Signer()
        document = encode_member(MemberDocument("", self._signer.public_key), "0")
        self._path = f"/pulsar-quota/brokers/{self.name}"
        self._zookeeper = zookeeper
        _, stat = zookeeper.create(self._path, document, ephemeral=True, include_data=True)
        self.incarnation = stat.czxid
        self._sequences = count(1)

    def say(self, *groups: GroupUsage, elapsed_ns: int = SECOND_NS, complete: bool = True) -> None:
        """Send a report."""
        number = next(self._sequences)
        report = UsageReport(
            self.name, self.incarnation, number, elapsed_ns, groups, complete=complete
        )
        self._producer.send(self._signer.sign(encode(report)))

    def leave(self) -> None:
        """Be a member no longer."""
        farewell = UsageReport(
            self.name, self.incarnation, next(self._sequences), 0, (), leaving=True
        )
        self._producer.send(self._signer.sign(encode(farewell)))
        self._zookeeper.delete(self._path)


@pytest.fixture
def rogue(world: World, connect: Connect) -> Iterator[Rogue]:
    """The member; all sidecars have seen it."""
    zookeeper = KazooClient(world.cluster.state.zookeeper_connect)
    zookeeper.start()
    try:
        rogue = Rogue(zookeeper, hostile_producer(world, connect))
        rogue.say()
        for name in BROKERS:
            eventually(lambda: Rogue.name in members(world, name), "it is a member")  # noqa: B023
        yield rogue
        rogue.leave()
        eventually(lambda: all(is_ready(world, name) for name in BROKERS), "all is well")
    finally:
        zookeeper.stop()
        zookeeper.close()


def hostile_producer(world: World, connect: Connect) -> pulsar.Producer:
    """Return a producer that any client with access to the bus topic can make."""
    client = connect(world.cluster.brokers[0].service_url)
    return client.create_producer(world.sidecars.bus_topics[0], batching_enabled=False)


def usage_of(group: str, version: int, usage: Usage) -> GroupUsage:
    """An entry on published messages."""
    return GroupUsage(group, version, {MonitoringClass.PUBLISH: usage})


def ages(world: World, name: str) -> dict[str, int]:
    """Return the age of each other member's last report, in milliseconds."""
    found = world.get("/quota/v1/health", at=name)["members"]
    return {each["broker"]: each["reportAgeMillis"] for each in found if each["broker"] != name}


@pytest.mark.verify
def test_forged_farewells_of_all_members_raise_no_limit(world: World, connect: Connect) -> None:
    """For 30 s, of each member under every number; once 8,970/s of 3,000 passed, and it stayed so."""
    world.limit(publishRateInMsgs=LIMIT)
    producer, strangers_key = hostile_producer(world, connect), Signer()
    incarnations = members(world, "broker-1")
    with world.load(dict.fromkeys(BROKERS, LIMIT)):
        world.comes_to(lambda rates: sum(rates.values()) > 0.9 * LIMIT, "all of the limit")
        with world.held_to(LIMIT, BROKERS):
            until_s = time.monotonic() + FORGED_S
            for sequence in count(2**40):
                for victim in BROKERS:
                    for number in (2**62, incarnations[victim], incarnations[victim] + 1):
                        farewell = UsageReport(victim, number, sequence, 1, (), leaving=True)
                        producer.send(encode(farewell))
                        producer.send(strangers_key.sign(encode(farewell)))
                for name in BROKERS:
                    assert degradations(world, name) == []
                    assert all(age < 10_000 for age in ages(world, name).values())
                if time.monotonic() > until_s:
                    break
        world.comes_to(
            lambda rates: all(LIMIT * 0.25 < rate < LIMIT * 0.4 for rate in rates.values()),
            "an equal part for each",
        )
    assert all(is_ready(world, name) for name in BROKERS)
    assert members(world, "broker-1") == incarnations
    for name in BROKERS:
        for victim in BROKERS:
            series = f'pulsar_quota_foreign_reports_total{{peer="{victim}"}}'
            assert (sample(world, name, series) or 0) > 0


def test_a_report_of_an_unknown_sender_is_dropped(world: World, connect: Connect) -> None:
    """Its sender is unknown to ZooKeeper, or a plain broker of Pulsar's."""
    producer = hostile_producer(world, connect)
    before = {name: dropped_at(world, name) for name in BROKERS}
    stranger = UsageReport("stranger", 1, 1, SECOND_NS, (), complete=True, learning=True)
    for _ in range(5):
        producer.send(Signer().sign(encode(stranger)))
        producer.send(b"\x0a\x13pulsar://plain:6650")
    for name in BROKERS:
        for reason in ("no member", "incarnation is missing"):
            wait_for_dropped(world, name, reason, before[name].get(reason, 0) + 5)
        assert "stranger" not in members(world, name)


@pytest.mark.verify
def test_a_definition_that_never_comes_ends_no_task(world: World, rogue: Rogue) -> None:
    """Later changes of the catalogue arrive, and the reports that wait are given up."""
    world.limit(publishRateInMsgs=LIMIT)
    before = {name: dropped_at(world, name) for name in BROKERS}
    for _ in range(3):
        rogue.say(usage_of("any", 2**60, Usage(participants=1)))
    world.put(f"/admin/v2/resourcegroups/{world.group}", {"publishRateInMsgs": 6000}, "broker-3")
    for name in BROKERS:
        reason = "definition not known for too long"
        wait_for_dropped(world, name, reason, before[name].get(reason, 0) + 3)
        assert world.get(f"/quota/v1/groups/{world.group}", at=name)["publishRateInMsgs"] == 6000
        assert world.get("/quota/v1/health", at=name)["failedTasks"] == []


@pytest.mark.verify
def test_numbers_that_cannot_be_cost_no_other_report(world: World, rogue: Rogue) -> None:
    """A member repeats 2^62 messages in a nanosecond: the others still reach their parts.

    It answers no report, which delays their first raise by ``hold_seconds`` and no more.
    """
    world.limit(publishRateInMsgs=LIMIT)
    version = world.get(f"/quota/v1/groups/{world.group}")["configurationVersion"]
    most = 2**63 - 1
    impossible = Usage(
        messages=2**62, bytes=most, messages_demand=most, bytes_demand=most, messages_limit=1,
        participants=2**32 - 1, topics=2**32 - 1, message_size=most,
    )  # fmt: skip
    with world.load(dict.fromkeys(BROKERS, LIMIT)):
        until_s = time.monotonic() + 120.0
        for elapsed_ns in cycle((1, 0, most, 2**62)):
            rogue.say(usage_of(world.group, version, impossible), elapsed_ns=elapsed_ns)
            time.sleep(0.5)
            for name in BROKERS:
                assert all(age < 10_000 for age in ages(world, name).values())
            if all(world.local_limit(name) >= LIMIT // 4 - 20 for name in BROKERS):
                break
            assert time.monotonic() < until_s, "they never came to an equal part"
        for name in BROKERS:
            health = world.get("/quota/v1/health", at=name)
            assert health["failedTasks"] == []
            world.get(f"/quota/v1/usage/{world.group}", at=name)
            assert sample(world, name, "pulsar_quota_members") == 4
