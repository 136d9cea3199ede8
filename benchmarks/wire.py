"""Control traffic at scale, measured with the real core and the real encoder.

The yardstick is PIP-82's own sizing example: 100,000 namespaces with a group each, 100 brokers, every
group on 5 of them, so 5,000 groups on each broker. Its arithmetic: names of 80 bytes, 32 bytes of usage,
so 112 B per group, 560 KB per broker and report, one report a minute, and 1 MB of memory on each broker,
which keeps only the usage of its own groups.

A core of one broker gets traffic for 5,000 groups that varies by 2 %, publish and dispatch, and what it
publishes is encoded and counted, a complete report as often as one is due. The definitions' versions are
scattered among a million transactions of the store. The others' reports say the same of other groups,
drawn from the 100,000; the broker that takes them in follows its own 5,000.

The worst case is that all groups move by a fifth in every round, so that every report is complete. What
would come of spreading groups over several bus topics is measured in shards.py, with fewer groups.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
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
    Tick,
    TrafficCounted,
)
from coordinator.core.instructions import Instruction, JoinMembership, PublishUsageReport
from coordinator.core.model import (
    NANOS_PER_SECOND,
    GroupUsage,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.core.usage.map import UsageMap
from coordinator.wire.reports import decode, encode

NAMESPACES = 100_000
GROUPS = 5_000
BROKERS = 100
NAME_BYTES = 80
WARM_UP_ROUNDS = 20
ROUNDS = 10
TRANSACTIONS = 1_000_000
FIRST_TRANSACTION = 4 << 32
"""A zxid begins with the number of the ensemble's leader."""
_MOVE = 1.2
"""The factor by which all traffic grows in one round, and falls in the next."""
SENDERS_SAMPLED = 10
"""The number of brokers whose reports are taken in; memory and time are in proportion to it."""

PIP_82_GROUP_BYTES = 112
PIP_82_REPORT_BYTES = GROUPS * PIP_82_GROUP_BYTES
PIP_82_MEMORY_MB = 1.0


@dataclass(frozen=True, slots=True)
class Steady:
    """One broker's reports at steady load between two complete ones, and one of those."""

    payloads: list[bytes]
    complete: UsageReport


def traffic_at_scale() -> Iterator[Figure]:
    """Bytes per group, per report interval and minute, memory and processor time of the receiver."""
    definitions = definitions_of(NAMESPACES)
    steady = publish_steadily(definitions[:GROUPS])
    complete = encode(steady.complete)
    yield Figure(
        "wire/bytes-per-group",
        len(complete) / len(steady.complete.groups),
        "B",
        "lower",
        {"PIP-82": PIP_82_GROUP_BYTES},
        target=64,
    )
    # The rounds that were run have no complete report: one is due every `complete_report_rounds`.
    per_round = sum(map(len, steady.payloads)) / ROUNDS
    per_round += len(complete) / CoreSettings("any").complete_report_rounds
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
        target=PIP_82_REPORT_BYTES / 5,
    )
    yield from _intake(definitions, steady.complete)
    yield from _moving(definitions)


MEASUREMENTS: Mapping[str, Measurement] = {"wire/": traffic_at_scale}


def definitions_of(number: int) -> list[ResourceGroup]:
    """Make definitions of groups with long names, in no order."""
    random = np.random.default_rng(seed=82)
    rates = Rates(10_000, 10_000_000, 20_000, 20_000_000)
    versions = random.choice(TRANSACTIONS, number, replace=False) + FIRST_TRANSACTION
    return [
        # Not alike, so that what compresses names is not flattered by them.
        ResourceGroup(
            f"{place:06}-{random.bytes(NAME_BYTES).hex()}"[:NAME_BYTES],
            rates,
            configuration_version=version,
        )
        for place, version in enumerate(versions.tolist())
    ]


def publish_steadily(groups: Sequence[ResourceGroup], *, moving: bool = False) -> Steady:
    """Let the core of one broker publish the usage of these groups, which may all move by a fifth."""
    settings = CoreSettings(broker="broker-001.pulsar.example.com:8080")
    state = CoordinatorState(settings)
    random = np.random.default_rng(seed=82)
    names = [group.name for group in groups]
    member = Member(settings.broker, incarnation=4_294_967_311)
    begin: list[Event] = [
        ConnectionChanged(ConnectionState.CONNECTED),
        GroupsChanged(tuple(groups)),
        BrokerAvailabilityChanged(answering=True),
    ]
    instructions: list[Instruction] = []
    for event in begin:
        instructions += state.handle(event, 0)
    assert JoinMembership() in instructions
    state.handle(MembershipJoined(member.incarnation), 0)
    state.handle(MembersChanged((member,)), 0)
    means = np.exp(random.normal(5, 1, (len(groups), 2)))
    reports: list[UsageReport] = []
    payloads: list[bytes] = []
    for round_ in range(1, WARM_UP_ROUNDS + ROUNDS + 1):
        counted = _counted(names, means * (_MOVE if moving and round_ % 2 else 1.0), random)
        state.handle(TrafficCounted(counted), round_ * settings.round_ns)
        for instruction in state.handle(Tick(), round_ * settings.round_ns):
            if isinstance(instruction, PublishUsageReport):
                reports.append(instruction.report)
                if round_ > WARM_UP_ROUNDS:
                    payloads.append(encode(instruction.report))
    complete = [
        report for report in reports if report.complete and len(report.groups) == len(groups)
    ]
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


def _intake(definitions: list[ResourceGroup], complete: UsageReport) -> Iterator[Figure]:
    """Measure the cost of taking in the complete reports of all brokers at one of them."""
    names = {group.configuration_version: group.name for group in definitions}
    members, payloads = _from_others(definitions, complete)
    all_brokers = BROKERS / SENDERS_SAMPLED
    usage = UsageMap(complete.broker)
    usage.set_members(members)
    usage.take(complete, 0)
    tracemalloc.start()
    try:
        for payload in payloads:
            usage.take(decode(payload, names), 0)
        megabytes = tracemalloc.get_traced_memory()[0] / 1e6 * all_brokers
    finally:
        tracemalloc.stop()
    started = time.process_time()
    for payload in payloads:
        report = decode(payload, names)
        usage.take(replace(report, sequence=report.sequence + 1), 0)
    seconds = (time.process_time() - started) * all_brokers
    yield Figure(
        "wire/intake-seconds",
        seconds,
        "s of processor for all brokers' complete reports",
        "lower",
        target=3,
    )
    yield Figure(
        "wire/usage-map-memory",
        megabytes,
        "MB for all groups of all brokers",
        "lower",
        {"PIP-82, own groups only": PIP_82_MEMORY_MB},
        target=100,
    )


def _from_others(
    definitions: list[ResourceGroup], report: UsageReport
) -> tuple[dict[str, Member], list[bytes]]:
    """Return the members, and a report of each sampled one that says the same of groups of its own."""
    random = np.random.default_rng(seed=83)
    members = {report.broker: Member(report.broker, report.incarnation)}
    payloads = []
    for number in range(SENDERS_SAMPLED):
        sender = f"broker-{number:03}.pulsar.example.com:8081"
        members[sender] = Member(sender, report.incarnation)
        drawn = random.choice(NAMESPACES, len(report.groups), replace=False).tolist()
        entries = tuple(
            GroupUsage(group.name, group.configuration_version, entry.usages)
            for group, entry in zip(
                [definitions[place] for place in drawn], report.groups, strict=True
            )
        )
        payloads.append(encode(replace(report, broker=sender, groups=entries)))
    return members, payloads


def _moving(definitions: list[ResourceGroup]) -> Iterator[Figure]:
    """Measure a round in which all groups of all brokers have moved, at one broker."""
    moving = publish_steadily(definitions[:GROUPS], moving=True)
    names = {group.configuration_version: group.name for group in definitions}
    others = BROKERS - 1
    members, payloads = _from_others(definitions, moving.complete)
    usage = UsageMap(moving.complete.broker)
    usage.set_members(members)
    usage.take(moving.complete, 0)
    for payload in payloads:
        usage.take(decode(payload, names), 0)
    started = time.process_time()
    for payload in payloads:
        report = decode(payload, names)
        usage.take(replace(report, sequence=report.sequence + 1), 0)
    seconds = (time.process_time() - started) * others / SENDERS_SAMPLED
    yield Figure(
        "wire/moving-bytes-in",
        sum(map(len, moving.payloads)) / ROUNDS * others,
        "B a round into each sidecar while all groups move",
        "lower",
        {"PIP-82, once a minute": PIP_82_REPORT_BYTES * others},
    )
    yield Figure(
        "wire/moving-seconds",
        seconds,
        "s of processor a round to take them in",
        "lower",
    )
