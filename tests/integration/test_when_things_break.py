"""Lost dependencies, dead peers, full disks and liars do what docs/failure-modes.md promises.

All of it on sidecars that a test can cut off (cut_off.py), under load that wants more than the limit.
"""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pyarrow.parquet as pq
import pytest

from coordinator.core.lifecycle import Degradation
from coordinator.core.model import UsageReport
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.reports import encode
from coordinator.wire.signature import Signer
from deploy.chaos.links import Links
from deploy.local import processes
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.conftest import Connect
from tests.integration.cut_off import ROUND_S, SEVERED, STALLED, CutOff
from tests.integration.told import (
    conditions,
    degradations,
    dropped_at,
    is_ready,
    members,
    refusal,
    sample,
    wait_for_capped,
    wait_for_dropped,
    wait_for_limit,
    wait_for_note,
)
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = pytest.mark.cluster

LIMIT = 300
EQUAL_PART = LIMIT // 3
MUCH, LITTLE = 600, 30
"""Messages per second that are offered: more than the limit, and less than an equal part."""

ALL = range(280, LIMIT + 1)
MOST = range(2 * EQUAL_PART + 1, LIMIT + 1)
HALF = range(140, LIMIT // 2 + 1)
AN_EQUAL_PART = range(95, EQUAL_PART + 1)
"""Local limits, less what those hold in reserve who take no part."""

PLAYED = 20
"""Repetitions of each false report; a single one may only be late."""

BROKERS = ("broker-1", "broker-2", "broker-3")
MakeWorld = Callable[[], World]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def cut_off(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CutOff]:
    """Sidecars that can be cut off."""
    with Links(seed=1) as links:
        cut_off = CutOff(cluster, tmp_path_factory.mktemp("cut-off"), links)
        with cut_off.sidecars:
            cut_off.sidecars.start()
            yield cut_off


@pytest.fixture
def worlds(cluster: Cluster, cut_off: CutOff) -> Iterator[MakeWorld]:
    """Makes worlds of these sidecars, each with a namespace and a group of its own."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield lambda: make_world(
            cluster, cut_off.sidecars, http, f"{TENANT}/cut-off-{next(_numbers)}"
        )


def all_ready(world: World) -> bool:
    """Whether every sidecar limits by what it knows of the others."""
    return all(is_ready(world, name) for name in BROKERS)


def limited(world: World, **settings: str) -> World:
    """Limit a world's group, with these settings of its own."""
    body = {"publishRateInMsgs": LIMIT, **settings}
    world.put(f"/admin/v2/resourcegroups/{world.group}", body, at="broker-1")
    world.limit(publishRateInMsgs=LIMIT)
    return world


@contextmanager
def silent_bus(world: World, cut_off: CutOff) -> Iterator[None]:
    """No sidecar hears another, and all of them have noticed."""
    links = [
        link for network_paths in cut_off.network_paths.values() for link in network_paths.to_bus
    ]
    cut_off.links.become(STALLED, *links)
    try:
        eventually(
            lambda: all("BUS_SILENT" in degradations(world, name) for name in BROKERS),
            "all of them miss the others",
        )
        yield
    finally:
        cut_off.links.mend(*links)


@contextmanager
def silent_bus_with_uneven_limits(world: World, cut_off: CutOff) -> Iterator[dict[str, int]]:
    """A silent bus while the first broker holds most of the limit; what each held when it was noticed.

    A machine that stands still in the moment before lets traffic wait, and a broker with waiting traffic
    has half of the limit for a round: the bus comes back then, and falls silent again.
    """
    deadline = time.monotonic() + 120
    while True:
        wait_for_limit(world, "broker-1", MOST)
        with silent_bus(world, cut_off):
            held = {name: world.local_limit(name) for name in BROKERS}
            if held["broker-1"] in MOST and held["broker-2"] < EQUAL_PART:
                yield held
                return
        assert time.monotonic() < deadline, f"never silent with uneven limits; at last {held}"
        eventually(lambda: all_ready(world), "all is well")


@pytest.mark.verify
@pytest.mark.shows("pip-82/losses-ignored")
def test_a_silent_bus_holds_the_limits_then_lowers_and_then_raises_them_to_equal_parts(
    worlds: MakeWorld, cut_off: CutOff
) -> None:
    """For one hold nothing moves, for another nothing rises; strict stays; all of it is told."""
    balanced, strict = limited(worlds()), limited(worlds(), overshootPolicy="strict")
    uneven = {"broker-1": MUCH, "broker-2": LITTLE}
    with balanced.load(uneven), strict.load(uneven):
        for world in (balanced, strict):
            world.comes_to(
                lambda rates: rates["broker-1"] > 2 * EQUAL_PART and rates["broker-2"] > LITTLE / 2,
                "most of it for one",
            )
        with silent_bus_with_uneven_limits(balanced, cut_off) as held:
            held_strictly = {name: strict.local_limit(name) for name in BROKERS}
            seen = set()

            def at_equal_parts() -> bool:
                # In this order: whatever the machine does in between, who lowers itself is asked later.
                second, first = (balanced.local_limit(n) for n in ("broker-2", "broker-1"))
                lowered, raised = first <= EQUAL_PART, second > held["broker-2"]
                seen.add((lowered, raised))
                return first == second == EQUAL_PART

            eventually(at_equal_parts, "equal parts")
            assert (True, False) in seen  # lowered at once, raised later
            assert (False, True) not in seen
            assert balanced.local_limit("broker-3") <= held["broker-3"]
            assert {name: strict.local_limit(name) for name in BROKERS} == held_strictly

            reason = Degradation.BUS_SILENT.value
            assert reason in refusal(balanced, "broker-2")
            assert reason in balanced.explained("broker-1")["sentence"]
            series = 'pulsar_quota_degradation{pulsar_quota_degradation="BUS_SILENT"}'
            assert sample(balanced, "broker-3", series) == 1
            certificate = balanced.get(f"/quota/v1/certificate/{balanced.group}")["certificates"][0]
            assert certificate["most"] > LIMIT
            assert "broker-2 was not heard for long" in certificate["sentence"]
            eventually(
                lambda: ("BusSilent", "broker-1") in conditions(balanced, "broker-1"), "a condition"
            )
            balanced.comes_to(lambda rates: 80 < rates["broker-1"] < 120, "its equal part")
        eventually(lambda: all_ready(balanced), "all is well")
        for world in (balanced, strict):
            wait_for_limit(world, "broker-1", MOST)


@pytest.mark.verify
def test_a_pause_costs_a_producer_nothing_while_the_bus_is_silent(
    worlds: MakeWorld, cut_off: CutOff
) -> None:
    """A broker could not get its share back before the bus is back."""
    world = limited(worlds())
    deadline = time.monotonic() + 120.0
    # The first wants a little less than it may have, so that nothing of it waits anywhere.
    with world.load({"broker-1": EQUAL_PART, "broker-2": MUCH}) as producers:
        while True:
            world.comes_to(
                lambda rates: (
                    min(rates["broker-1"], world.local_limit("broker-1")) > 0.9 * EQUAL_PART
                ),
                "all it wants",
            )
            with silent_bus(world, cut_off):
                held = world.local_limit("broker-1")
                if held > 0.9 * EQUAL_PART:
                    pause(world, producers["broker-1"], held)
                    break
            # A machine that stood still just then has given some of it to the other, and messages wait.
            assert time.monotonic() < deadline, f"the first never had all it wants; at last {held}"
            eventually(lambda: all_ready(world), "another try")
        eventually(lambda: all_ready(world), "all is well")


def pause(world: World, producer: subprocess.Popen[bytes], held: int) -> None:
    """Stop the first broker's producer for a while: its limit stays, and then it sends as before."""
    producer.send_signal(signal.SIGSTOP)
    try:
        eventually(
            lambda: world.measure(ROUND_S)["broker-1"] == 0.0, "what was under way has arrived"
        )
        assert world.measure(2 * ROUND_S)["broker-1"] == 0.0
        assert world.local_limit("broker-1") == held
    finally:
        producer.send_signal(signal.SIGCONT)
    wanted = min(held, EQUAL_PART)
    world.comes_to(lambda rates: rates["broker-1"] > 0.8 * wanted, "what it had")


@pytest.mark.verify
def test_without_zookeeper_limits_are_held_and_then_follow_each_groups_partition_policy(
    worlds: MakeWorld, cut_off: CutOff
) -> None:
    """Held while the session may live; then hold holds on, safe has C/N, stop and strict have nothing."""
    policies = {
        policy: limited(worlds(), partitionPolicy=policy) for policy in ("hold", "safe", "stop")
    }
    policies["strict"] = limited(worlds(), overshootPolicy="strict")
    hold, safe, stop, strict = policies.values()
    with ExitStack() as loads:
        for world in policies.values():
            loads.enter_context(world.load({"broker-1": MUCH}))
        for world in policies.values():
            wait_for_limit(world, "broker-1", MOST)
        links = cut_off.network_paths["broker-1"].to_zookeeper
        cut_off.links.become(SEVERED, *links)
        try:
            eventually(
                lambda: "ZOOKEEPER_SUSPENDED" in degradations(hold, "broker-1"), "it is told"
            )
            held = {name: world.local_limit("broker-1") for name, world in policies.items()}
            assert Degradation.ZOOKEEPER_SUSPENDED.value in refusal(hold, "broker-1")
            assert set(held.values()) <= set(MOST)

            eventually(lambda: "ZOOKEEPER_LOST" in degradations(hold, "broker-1"), "it is over")
            assert {name: world.local_limit("broker-1") for name, world in policies.items()} == {
                "hold": held["hold"],
                "safe": EQUAL_PART,
                "stop": 0,
                "strict": 0,
            }
            reason = Degradation.ZOOKEEPER_LOST.value
            assert reason in refusal(hold, "broker-1")
            for world in policies.values():
                assert reason in world.explained("broker-1")["sentence"]
            series = 'pulsar_quota_degradation{pulsar_quota_degradation="ZOOKEEPER_LOST"}'
            assert sample(hold, "broker-1", series) == 1
            eventually(
                lambda: ("ZooKeeperLost", "broker-1") in conditions(hold, "broker-1"), "a condition"
            )
            for world in (stop, strict):
                world.comes_to(lambda rates: rates["broker-1"] == 0, "nothing")
            safe.comes_to(lambda rates: 80 < rates["broker-1"] < 120, "an equal part")
            hold.comes_to(lambda rates: rates["broker-1"] > 2 * EQUAL_PART, "what it held")
        finally:
            cut_off.links.mend(*links)
        eventually(lambda: all_ready(hold), "all is well")
        for world in policies.values():
            wait_for_limit(world, "broker-1", MOST)


@pytest.mark.shows("pip-82/broker-down", "pip-82/no-leader")
def test_a_dead_peers_share_returns_and_who_comes_back_begins_with_its_reserve(
    worlds: MakeWorld, cut_off: CutOff
) -> None:
    """A condition and an event name it, no member row does; reborn it learns, holding its reserve."""
    world = limited(worlds())
    with world.load({"broker-1": MUCH, "broker-3": MUCH}):
        for name in ("broker-1", "broker-3"):
            wait_for_limit(world, name, HALF)
        incarnation = members(world, "broker-1")["broker-3"]
        world.sidecars.end("broker-3", signal.SIGKILL)
        # Its clients may have paused just before: its part is then another's while it is a member.
        eventually(lambda: "broker-3" not in members(world, "broker-1"), "no member any more")
        wait_for_limit(world, "broker-1", ALL)
        eventually(lambda: ("PeerLost", "broker-3") in conditions(world, "broker-1"), "a condition")
        wait_for_note(world, "broker-1", "left", "broker-3 left: 2 brokers are members now.")

        earlier = set(recorded_files(cut_off, "broker-3", "limits"))
        world.sidecars.start("broker-3")
        eventually(
            lambda: members(world, "broker-1").get("broker-3", 0) > incarnation, "a new incarnation"
        )
        for name in ("broker-1", "broker-3"):
            wait_for_limit(world, name, HALF)

    def limits_of_the_new_run() -> list[dict[str, Any]]:
        files = set(recorded_files(cut_off, "broker-3", "limits")) - earlier
        return sorted(
            (
                row
                for file in files
                for row in pq.read_table(file).to_pylist()
                if row["resource_group"] == world.group
            ),
            key=lambda row: row["decided_monotonic_ns"],
        )

    eventually(lambda: bool(limits_of_the_new_run()), "they are recorded")
    first = limits_of_the_new_run()[0]
    assert first["binding"] == "reserve"
    assert first["local_limit"] <= EQUAL_PART
    wait_for_note(world, "broker-3", "state", "broker-3 is LEARNING, before STARTING")


@pytest.mark.verify
def test_a_gate_stands_still_with_its_coordinator_and_goes_on_with_it(worlds: MakeWorld) -> None:
    """Although its own limit would let it go on: others may have its share by then."""
    world = limited(worlds())
    with world.load({"broker-1": MUCH}):
        wait_for_limit(world, "broker-1", MOST)
        coordinator = world.sidecars.pid("broker-1")
        os.kill(coordinator, signal.SIGSTOP)
        try:
            world.comes_to(lambda rates: rates["broker-1"] == 0, "nothing")
        finally:
            os.kill(coordinator, signal.SIGCONT)
        world.comes_to(lambda rates: rates["broker-1"] > 2 * EQUAL_PART, "as before")
        said = world.sidecars.log_file("broker-1").read_text(encoding="utf-8")
        assert "stood still with the coordinator" in said


def recorded_files(cut_off: CutOff, name: str, table: str) -> list[Path]:
    """The files of a table that a sidecar has written."""
    return list(cut_off.record_dir(name).glob(f"table={table}/*/*/*.parquet"))


@pytest.mark.verify
def test_a_disk_without_room_stops_the_recording_only(worlds: MakeWorld, cut_off: CutOff) -> None:
    """A metric and the health say so and why; traffic goes on; with room it records by itself again."""
    world = limited(worlds())
    recording = "pulsar_quota_recording"

    def written() -> int:
        return int(world.get("/quota/v1/health", at="broker-2")["recording"]["rowsWritten"])

    with world.load({"broker-2": MUCH}):
        eventually(lambda: sample(world, "broker-2", recording) == 1 and written() > 0, "recorded")
        # No room in any file: it cannot tell that from a full disk.
        with processes.limited(world.sidecars.pid("broker-2"), resource.RLIMIT_FSIZE, 0):
            eventually(lambda: sample(world, "broker-2", recording) == 0, "it is told")
            assert world.get("/quota/v1/health", at="broker-2")["recording"]["reason"]
            eventually(lambda: is_ready(world, "broker-2"), "it is ready all the same")
            before = written()
            world.comes_to(lambda rates: 250 < rates["broker-2"] < 330, "traffic as before")
            assert written() == before
        eventually(lambda: sample(world, "broker-2", recording) == 1, "it records again")
        eventually(lambda: written() > before, "what waited is written")


def test_forged_and_old_reports_are_dropped_and_counted(
    worlds: MakeWorld, cut_off: CutOff, connect: Connect
) -> None:
    """Farewells in a member's name without its signature, and old reports."""
    world = worlds()
    client = connect(world.cluster.brokers[0].service_url)
    topic = world.sidecars.bus_topics[0]
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    producer = client.create_producer(topic, batching_enabled=False)
    incarnation = members(world, "broker-1")["broker-2"]
    farewell = encode(UsageReport("broker-2", incarnation, 1 << 40, 1, (), leaving=True))
    genuine = next_report_of(reader, "broker-2")
    next_report_of(reader, "broker-2")  # that one is old now
    forged = (farewell, Signer().sign(farewell))
    dropped = dropped_at(world, "broker-1")

    for payload in (*forged, genuine):
        for _ in range(PLAYED):
            producer.send(payload)

    for reason, sent in (("foreign", len(forged) * PLAYED), ("sent again", PLAYED)):
        wait_for_dropped(world, "broker-1", reason, dropped.get(reason, 0) + sent)
        series = f'pulsar_quota_reports_dropped_total{{reason="{reason}"}}'
        assert (sample(world, "broker-1", series) or 0) >= sent
    eventually(lambda: all_ready(world), "they are ready")
    assert members(world, "broker-1").get("broker-2") == incarnation
    series = 'pulsar_quota_foreign_reports_total{peer="broker-2"}'
    assert (sample(world, "broker-1", series) or 0) >= len(forged) * PLAYED


def next_report_of(reader: pulsar.Reader, name: str) -> bytes:
    """Return the next report of a sidecar on the bus."""
    while True:
        payload = bytes(reader.read_next(timeout_millis=30_000).data())
        if pb.ResourceUsageInfo.FromString(payload).broker == name:
            return payload


@pytest.mark.verify
def test_who_holds_more_than_it_is_due_keeps_no_other_from_an_equal_part(
    worlds: MakeWorld, cut_off: CutOff, tmp_path: Path
) -> None:
    """A sidecar that takes the whole limit: the others say so, and raise themselves all the same."""
    world = limited(worlds())
    program = (str(Path(__file__).with_name("greedy_sidecar.py")),)
    with Sidecars(world.cluster, tmp_path, program=program) as greedy:
        own = cut_off.sidecars.configuration_file("broker-3").read_text()
        greedy.configuration_file("broker-3").write_text(own)
        world.sidecars.end("broker-3")
        try:
            greedy.start("broker-3")
            with world.load(dict.fromkeys(BROKERS, MUCH)):
                for name in BROKERS[:2]:
                    wait_for_capped(world, name, "broker-3")
                    wait_for_limit(world, name, AN_EQUAL_PART)
                    said = "More than twice the target is announced by broker-3"
                    assert said in world.explained(name)["sentence"]
                    series = 'pulsar_quota_announcements_capped_total{peer="broker-3"}'
                    assert (sample(world, name, series) or 0) >= 1
        finally:
            greedy.stop()
            world.sidecars.start("broker-3")
