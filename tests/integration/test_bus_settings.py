"""The bus, compressed, with PIP-82's names for its settings, and reports dropped for their age."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import cycle

import pulsar
import pytest

from coordinator.core.model import UsageReport
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.reports import encode
from coordinator.wire.signature import Signer, split_signature
from deploy.local.cluster import Cluster
from deploy.local.sidecars import PIP_82_TOPICS, bus_topics
from tests.conftest import Connect, Figure
from tests.integration.steady import Steady
from tests.integration.told import dropped_at, members, wait_for_dropped
from tests.integration.world import PATIENCE_S, World, eventually, world_of_others

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

INTERVAL_S = 2
AGE_MAX_S = 1.0
STOPPED_S = 3.0
"""More than an interval and the greatest age, and less than a session's timeout."""

ROUNDS = 3
"""From one report that lists every group to the next."""

SETTINGS: dict[str, object] = {
    "resourceUsagePublishToTopic": True,
    "resourceUsagePublishIntervalInSecs": INTERVAL_S,
    "bus_message_age_max_seconds": AGE_MAX_S,
    "bus_compression": "lz4",
    "complete_report_rounds": ROUNDS,
    "report_change_ratio": 0.1,
}
BROKER = "broker-1"
MANY = 20
"""Groups, of which a report is no longer always complete."""


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Sidecars that are configured as PIP-82 has it, the name of the one topic included."""
    directory = tmp_path_factory.mktemp("pip82")
    settings = SETTINGS | {PIP_82_TOPICS: bus_topics(cluster.brokers, cluster.brokers[:1])[0]}
    with world_of_others(cluster, directory, settings) as world:
        yield world


@pytest.mark.shows("pip-82/config-enable", "pip-82/config-topic", "pip-82/ids")
def test_reports_have_no_names_of_groups(world: World, connect: Connect, figure: Figure) -> None:
    """All know the usage of all, though no report on the bus has the name of the group in it."""
    world.limit(publishRateInMsgs=900, law="static", overshootPolicy="eager")
    name, payloads = world.group.encode(), dict[str, list[bytes]]()
    url = world.cluster.brokers[0].service_url
    reader = connect(url).create_reader(world.sidecars.bus_topics[0], pulsar.MessageId.latest)
    topics = dict.fromkeys(world.topic_of.values(), 100)
    with Steady(world.sidecars.service_url, topics) as load:
        load.offers(dict.fromkeys(topics, 100))
        for at in world.topic_of:
            eventually(
                lambda at=at: all(  # type: ignore[misc]
                    row["admitted"]["publishRateInMsgs"] == pytest.approx(100, abs=5)
                    for row in world.get(f"/quota/v1/usage/{world.group}", at=at)["brokers"]
                ),
                f"{at} knows the usage of all",
            )

        def heard() -> bool:
            message = reader.read_next(timeout_millis=20_000)
            payloads.setdefault(message.producer_name(), []).append(message.data())
            return len(payloads) == 3 and all(len(each) > 5 for each in payloads.values())

        eventually(heard, "six reports of three sidecars")
    reports = [payload for each in payloads.values() for payload in each]
    assert not any(name in payload for payload in reports)
    figure(
        "pip-82/ids",
        f"none of {len(reports)} reports has the name; the longest: {max(map(len, reports))} B",
    )


@pytest.mark.shows("pip-82/stale", "pip-82/config-interval")
def test_reports_that_waited_are_dropped_by_their_publish_time(
    world: World, figure: Figure
) -> None:
    """A sidecar that stood still for three seconds finds reports of up to three seconds ago."""
    world.limit(publishRateInMsgs=900, law="max-min", overshootPolicy="balanced")
    topics = dict.fromkeys(world.topic_of.values(), 100)
    with Steady(world.sidecars.service_url, topics) as load:
        load.offers(dict.fromkeys(topics, 500))
        thirds = {"publishRateInMsgs": 300}
        eventually(lambda: limits(world) == [thirds] * 3, "a third for each")
        before, coordinator = dropped(world), world.sidecars.pid("broker-1")
        os.kill(coordinator, signal.SIGSTOP)
        try:
            time.sleep(STOPPED_S)
        finally:
            os.kill(coordinator, signal.SIGCONT)
        eventually(lambda: dropped(world) > before, "old reports are dropped and counted")
        count = dropped(world) - before
        eventually(lambda: limits(world) == [thirds] * 3, "a third for each, as before")
        after = dropped(world)
        interval_s = round_s(world)
        assert dropped(world) == after, "those that follow are taken"
    figure("pip-82/stale", f"{count} dropped after {STOPPED_S:.0f} s")
    figure("pip-82/config-interval", f"a round in {interval_s:.2f} s of {INTERVAL_S} s")


def round_s(world: World) -> float:
    """Wait until three rounds in a row take as long as they are configured to; return one's time."""
    deadline, begun_s = time.monotonic() + PATIENCE_S, list[float]()
    while True:
        before = round_of(world)
        while round_of(world) == before:
            time.sleep(0.02)
        assert round_of(world) == before + 1, "none is left out"
        begun_s.append(time.monotonic())
        took_s = (begun_s[-1] - begun_s[-4]) / 3 if len(begun_s) > 3 else 0.0
        if took_s == pytest.approx(INTERVAL_S, rel=0.03):
            return took_s
        assert time.monotonic() < deadline, f"never {INTERVAL_S} s; at last {took_s}"


def round_of(world: World) -> int:
    """The number of the sidecar's round."""
    number: int = world.get("/quota/v1/health", at=BROKER)["round"]
    return number


class Reports:
    """The reports of one sidecar, read from the bus."""

    def __init__(self, reader: pulsar.Reader) -> None:
        self._reader = reader

    def next(self) -> tuple[bool, int]:
        """Wait for a report; return whether it is complete, and its number of rows."""
        while True:
            payload = self._reader.read_next(timeout_millis=20_000).data()
            report = pb.ResourceUsageInfo.FromString(split_signature(payload).report)
            if report.broker == BROKER:
                columns = len(report.publish.definitions), len(report.dispatch.definitions)
                return report.complete, len(report.usageMap) + sum(columns)

    def next_complete(self) -> list[int]:
        """Wait for a complete report; return the rows of those before it."""
        rows = list[int]()
        while True:
            is_complete, count = self.next()
            if is_complete:
                assert count > MANY, "all groups are listed"
                return rows
            rows.append(count)


@pytest.mark.shows("pip-82/change-threshold", "pip-82/every-n-rounds", "pip-82/little-traffic")
def test_of_many_groups_only_each_third_report_has_those_that_changed_by_less_than_a_tenth(
    world: World, connect: Connect, figure: Figure
) -> None:
    """Twenty groups count the same traffic, which changes by 5 % in between, and then by 50 %."""
    settings: dict[str, int | str] = {
        "publishRateInMsgs": 900,
        "law": "static",
        "overshootPolicy": "eager",
    }
    world.limit(**settings)
    observing = settings | {"enforcement": "observe", "observes": world.group}
    for number in range(MANY):
        world.put(f"/admin/v2/resourcegroups/{world.group}-{number}", observing, at=BROKER)
    topic = world.topic_of[BROKER]
    url = world.cluster.brokers[0].service_url
    reader = connect(url).create_reader(world.sidecars.bus_topics[0], pulsar.MessageId.latest)
    reports, rates, deadline = Reports(reader), cycle((210, 200)), time.monotonic() + 120
    with Steady(world.sidecars.service_url, {topic: 100}, arrears_s=2.0) as load:
        load.offers({topic: 200})
        eventually(lambda: reports.next() > (True, MANY), "a report of all groups")
        rows, took_s = [1], 0.0
        # A process that stands still for a fifth of a second is a change by more than a tenth.
        while any(rows) or took_s != pytest.approx(ROUNDS * INTERVAL_S, rel=0.03):
            assert time.monotonic() < deadline, f"never without rows; at last {rows} in {took_s} s"
            reports.next_complete()
            began_s = time.monotonic()
            load.offers({topic: next(rates)})
            rows = reports.next_complete()
            took_s = time.monotonic() - began_s
        load.offers({topic: 300})
        changed = reports.next_complete()
    assert max(changed) > MANY, "all groups, before the third report"
    figure("pip-82/little-traffic", f"{len(rows)} reports without a row between complete ones")
    figure("pip-82/change-threshold", f"5 %: no row; 50 %: {max(changed)} rows at once")
    figure(
        "pip-82/every-n-rounds",
        f"all groups every {took_s:.2f} s, {ROUNDS} rounds of {INTERVAL_S} s",
    )


def test_a_stranger_makes_no_members_reports_look_old(world: World, connect: Connect) -> None:
    """It names each member and a time far ahead, which none of theirs could be compared with."""
    url = world.cluster.brokers[0].service_url
    producer = connect(url).create_producer(world.sidecars.bus_topics[0], batching_enabled=False)
    stranger, incarnations = Signer(), members(world, "broker-1")
    before, foreign = dropped(world), dropped_at(world, "broker-1").get("foreign", 0)
    for sequence in range(2**40, 2**40 + 20):
        for victim, incarnation in incarnations.items():
            forged = encode(UsageReport(victim, incarnation, sequence, 1, ()), 2**62)
            producer.send(stranger.sign(forged))
    wait_for_dropped(world, "broker-1", "foreign", foreign + 40)
    rounds = world.get("/quota/v1/health")["round"]
    eventually(lambda: world.get("/quota/v1/health")["round"] > rounds + 2, "three more rounds")
    assert dropped(world) == before


def dropped(world: World) -> int:
    """Reports that the sidecar of broker-1 has dropped for their age."""
    return dropped_at(world, "broker-1").get("too old", 0)


def limits(world: World) -> list[dict[str, int]]:
    """Every broker's local limit of messages."""
    return [
        {"publishRateInMsgs": each["publishRateInMsgs"]} for each in world.local_limits().values()
    ]
