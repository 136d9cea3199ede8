"""Control traffic at scale, measured with the real core and the real encoder.

The yardstick is PIP-82's own sizing example: 100,000 namespaces with a group each, 100 brokers, every
group on 5 of them, so 5,000 groups on each broker. Its arithmetic: names of 80 bytes, 32 bytes of usage,
so 112 B per group, 560 KB per broker and report, one report a minute, and 1 MB of memory on each broker,
which keeps only the usage of its own groups.

A core of one broker gets traffic for 5,000 groups that varies by 2 %, publish and dispatch, and what it
publishes is encoded and counted. The others' reports are copies of its complete one.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.figures import Figure, Measurement
from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    ConnectionState,
    Event,
    GroupsChanged,
    MembersChanged,
    MembershipJoined,
    TrafficCounted,
)
from coordinator.core.instructions import Instruction, JoinMembership, PublishUsageReport
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Traffic,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.usage_map import UsageMap
from coordinator.wire.reports import decode, encode

GROUPS = 5_000
BROKERS = 100
NAME_BYTES = 80
WARM_UP_ROUNDS = 20
ROUNDS = 10
SENDERS_SAMPLED = 5
"""Reports of so many brokers are taken in; memory and time are in proportion to their number."""

PIP_82_GROUP_BYTES = 112
PIP_82_REPORT_BYTES = GROUPS * PIP_82_GROUP_BYTES
PIP_82_MEMORY_MB = 1.0


@dataclass(frozen=True, slots=True)
class Steady:
    """What one broker published at steady load, encoded, and its last complete report."""

    payloads: list[bytes]
    complete: UsageReport


def traffic_at_scale() -> Iterator[Figure]:
    """Bytes per group, per report interval and minute, memory and processor time of the receiver."""
    steady = _publish_steadily()
    complete = encode(steady.complete)
    yield Figure(
        "wire/bytes-per-group",
        len(complete) / len(steady.complete.groups),
        "B",
        "lower",
        {"PIP-82": PIP_82_GROUP_BYTES},
        target=64,
    )
    per_round = sum(map(len, steady.payloads)) / ROUNDS
    rounds_per_minute = 60 * NANOS_PER_SECOND // CoreSettings("any").round_ns
    yield Figure(
        "wire/steady-bytes",
        per_round,
        "B per broker and report interval",
        "lower",
        {"PIP-82": PIP_82_REPORT_BYTES},
        target=PIP_82_REPORT_BYTES / 5,
    )
    yield Figure(
        "wire/steady-bytes-per-minute",
        per_round * rounds_per_minute,
        "B per broker at the default interval",
        "lower",
        {"PIP-82, one report a minute": PIP_82_REPORT_BYTES},
    )
    yield from _intake(steady.complete)


MEASUREMENTS: Mapping[str, Measurement] = {"wire/": traffic_at_scale}


def _publish_steadily() -> Steady:
    settings = CoreSettings(broker="broker-001.pulsar.example.com:8080")
    state = CoordinatorState(settings)
    random = np.random.default_rng(seed=82)
    # Not alike, so that what compresses names is not flattered by them.
    names = [f"{i:06}-{random.bytes(NAME_BYTES).hex()}"[:NAME_BYTES] for i in range(GROUPS)]
    rates = Rates(10_000, 10_000_000, 20_000, 20_000_000)
    member = Member(settings.broker, incarnation=4_294_967_311)
    begin: list[Event] = [
        ConnectionChanged(ConnectionState.CONNECTED),
        GroupsChanged(
            tuple(ResourceGroup(name, rates, configuration_version=70_000) for name in names)
        ),
        BrokerAvailabilityChanged(answering=True),
    ]
    instructions: list[Instruction] = []
    for event in begin:
        instructions += state.handle(event, 0)
    assert JoinMembership() in instructions
    state.handle(MembershipJoined(member.incarnation), 0)
    state.handle(MembersChanged((member,)), 0)
    means = np.exp(random.normal(5, 1, (GROUPS, 2)))
    reports: list[UsageReport] = []
    payloads: list[bytes] = []
    for round_ in range(1, WARM_UP_ROUNDS + ROUNDS + 1):
        counted = _counted(names, means, random)
        for instruction in state.handle(TrafficCounted(counted), round_ * settings.round_ns):
            if isinstance(instruction, PublishUsageReport):
                reports.append(instruction.report)
                if round_ > WARM_UP_ROUNDS:
                    payloads.append(encode(instruction.report))
    complete = [report for report in reports if len(report.groups) == GROUPS]
    return Steady(payloads, complete[-1])


def _counted(
    names: list[str],
    means: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    random: np.random.Generator,
) -> tuple[Traffic, ...]:
    """One round's traffic: 2 % around the mean of every group and class, messages of 1 KiB."""
    counts = (means * random.uniform(0.98, 1.02, means.shape)).astype(int).tolist()
    return tuple(
        Traffic(name, monitoring_class, count, count * 1024, participants=3, topics=2)
        for name, both in zip(names, counts, strict=True)
        for monitoring_class, count in zip(MonitoringClass, both, strict=True)
    )


def _intake(complete: UsageReport) -> Iterator[Figure]:
    """What the complete reports of all brokers cost one of them to take in."""
    senders = [f"broker-{i:03}.pulsar.example.com:8080" for i in range(SENDERS_SAMPLED)]
    members = {sender: Member(sender, complete.incarnation) for sender in senders}
    payloads = [encode(replace(complete, broker=sender)) for sender in senders]
    all_brokers = BROKERS / SENDERS_SAMPLED
    usage = UsageMap()
    usage.set_members(members)
    started = time.process_time()
    for payload in payloads:
        usage.take(decode(payload), 0)
    seconds = (time.process_time() - started) * all_brokers
    yield Figure(
        "wire/intake-seconds", seconds, "s of processor for all brokers' complete reports", "lower"
    )
    tracemalloc.start()
    try:
        usage = UsageMap()
        usage.set_members(members)
        for payload in payloads:
            usage.take(decode(payload), 0)
        megabytes = tracemalloc.get_traced_memory()[0] / 1e6 * all_brokers
    finally:
        tracemalloc.stop()
    yield Figure(
        "wire/usage-map-memory",
        megabytes,
        "MB for all groups of all brokers",
        "lower",
        {"PIP-82, own groups only": PIP_82_MEMORY_MB},
    )
