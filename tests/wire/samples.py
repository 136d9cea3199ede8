"""One value of everything that sidecars tell each other or leave in the store, with every field in use.

The values are what a saved release's bytes mean (tests/wire/saved), so a field that is added later is
given a value here only together with new bytes.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.core.escrow.books import TOTAL
from coordinator.core.model import (
    Account,
    Closure,
    EscrowRecord,
    EscrowStatement,
    GroupUsage,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
    ViewDigest,
)
from coordinator.core.topics import TopicName
from coordinator.insight.model.operations import Operation, OperationStage
from coordinator.insight.model.outside import RecordedOperation
from coordinator.ports import AuditEntry, Origin

PUBLISHED = Usage(
    messages=1_000,
    bytes=100_000,
    messages_throttled_permille=250,
    bytes_throttled_permille=3,
    messages_demand=1_500,
    bytes_demand=150_000,
    messages_limit=1_200,
    bytes_limit=2**40,
    messages_ceiling=1_300,
    bytes_ceiling=2**41,
    participants=7,
    topics=4,
    message_size=100,
)
DISPATCHED = Usage(messages=0, bytes=0, messages_limit=0, participants=1, topics=1)
GROUPS = (
    GroupUsage("orders", 17, {MonitoringClass.PUBLISH: PUBLISHED}),
    GroupUsage(
        "returns",
        4_711,
        {MonitoringClass.PUBLISH: Usage(5, 50), MonitoringClass.DISPATCH: DISPATCHED},
    ),
)
NAMES = {17: "orders", 4_711: "returns"}

HEAD = UsageReport(
    broker="broker-1.example:8080",
    incarnation=2**40 + 1,
    sequence=12_345,
    elapsed_ns=1_000_000_007,
    groups=(),
    since=12_000,
    complete=True,
    learning=True,
    asks=("broker-2", "broker-3"),
    view=ViewDigest(1, 2**31, 2**32 - 1),
    bus_silent=True,
    waiting=True,
    answers={2**40 + 2: 99, 2**40 + 3: 100},
)
STATEMENT = EscrowStatement(
    "strict-one",
    3,
    5,
    (1, 2, 3, 4),
    {Account("broker-2", 8): (10, 0, 0, 0)},
    {Account("broker-3", 9): Closure((1, 1, 1, 1), (2, 2, 2, 2))},
)

BY_NAME = replace(HEAD, groups=GROUPS, named=True, escrow=(STATEMENT,))
BY_VERSION = replace(HEAD, groups=GROUPS)
FAREWELL = UsageReport("broker-3", 9, 1, 0, (), since=1, leaving=True)

GROUP = ResourceGroup(
    "orders",
    Rates(publish_messages=3_000, publish_bytes=2**62, dispatch_messages=0),
    law="proportional",
    weights="topics",
    overshoot_policy="strict",
    partition_policy="safe",
    enforcement="observe",
    observes="returns",
    configuration_version=17,
)
PLAIN_GROUP = ResourceGroup("plain", Rates(publish_messages=7), configuration_version=1)
ESCROW = EscrowRecord(
    "orders",
    3,
    5,
    {
        Account("broker-1", 7): (TOTAL - 10,) * 4,
        Account("broker-2", 8): (10,) * 4,
    },
    frozenset({Account("broker-1", 7)}),
)
TOPIC = TopicName("persistent", "shop", "orders", "incoming")
TOPIC_LIMITS = Rates(publish_messages=900, dispatch_bytes=1)
OPERATION = RecordedOperation(
    Operation(
        id=4,
        group="orders",
        version=17,
        subject="groups/orders",
        text="publishRateInMsgs 1000 -> 3000",
        actor="alice",
        taker="broker-1",
        stage=OperationStage.SETTLED,
        settle_ns=512_000_000,
        residual_permille=3,
    ),
    1_700_000_000_000,
)
ENTRY = AuditEntry(
    id=9,
    at_ms=1_700_000_000_001,
    origin=Origin("alice", "10.0.0.1", 8),
    subject="groups/plain",
    before=None,
    after=replace(PLAIN_GROUP, configuration_version=0),
)
