"""Usage reports on the wire: what goes in comes out, and nothing else is taken for a report."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.model import (
    MAX_COUNT,
    Account,
    Closure,
    EscrowStatement,
    GroupUsage,
    MonitoringClass,
    Usage,
    UsageReport,
    ViewDigest,
)
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.columns import UnknownDefinition
from coordinator.wire.fields import MAX_ENTRIES, MAX_GRANTS, MAX_GROUPS, MAX_NAMED_GROUPS
from coordinator.wire.reports import BadReport, decode, encode, head_of

counts = st.integers(0, MAX_COUNT)
permilles = st.integers(0, 1000)
small = st.integers(0, 2**32 - 1)
digests = small
names = st.text("abcdefgh-.:/0123456789", min_size=1, max_size=40)
usages = st.builds(
    Usage,
    messages=counts,
    bytes=counts,
    messages_throttled_permille=permilles,
    bytes_throttled_permille=permilles,
    messages_demand=st.none() | counts,
    bytes_demand=st.none() | counts,
    messages_limit=st.none() | counts,
    bytes_limit=st.none() | counts,
    messages_ceiling=st.none() | counts,
    bytes_ceiling=st.none() | counts,
    participants=small,
    topics=small,
    message_size=small,
)
groups = st.builds(
    GroupUsage, names, counts, st.dictionaries(st.sampled_from(MonitoringClass), usages)
)
parts = st.tuples(counts, counts, counts, counts)
accounts = st.builds(Account, names, counts)
statements = st.builds(
    EscrowStatement,
    names,
    counts,
    counts,
    parts,
    st.dictionaries(accounts, parts, max_size=3),
    st.dictionaries(accounts, st.builds(Closure, parts, parts), max_size=3),
)
heads = st.builds(
    UsageReport,
    names,
    counts,
    counts,
    counts,
    st.just(()),
    since=counts,
    complete=st.booleans(),
    learning=st.booleans(),
    leaving=st.booleans(),
    asks=st.lists(names, max_size=3).map(tuple),
    escrow=st.lists(statements, max_size=3).map(tuple),
    view=st.none() | st.builds(ViewDigest, digests, digests, digests),
    bus_silent=st.booleans(),
    waiting=st.booleans(),
    answers=st.dictionaries(counts, counts, max_size=3),
)


@given(heads, st.lists(groups, min_size=1, max_size=4).map(tuple))
def test_what_is_encoded_is_decoded(head: UsageReport, entries: tuple[GroupUsage, ...]) -> None:
    """Every report that tells groups by name survives the wire unchanged."""
    report = replace(head, groups=entries, named=True)

    assert decode(encode(report), {}) == report


@given(
    heads,
    st.dictionaries(
        st.integers(1, MAX_COUNT),
        st.tuples(names, st.dictionaries(st.sampled_from(MonitoringClass), usages, min_size=1)),
        max_size=6,
    ),
)
def test_what_is_told_by_version_is_decoded(
    head: UsageReport, told: dict[int, tuple[str, dict[MonitoringClass, Usage]]]
) -> None:
    """A report that tells groups by version is the same to a receiver with the definitions."""
    entries = {
        name: GroupUsage(name, version, by_class) for version, (name, by_class) in told.items()
    }
    versions = {entry.configuration_version: name for name, entry in entries.items()}
    report = decode(encode(replace(head, groups=tuple(entries.values()))), versions)

    assert {entry.group: entry for entry in report.groups} == entries
    assert replace(report, groups=()) == head


def test_a_definition_that_is_not_known_is_said_to_be_that() -> None:
    """The report is in order; it can be read when the definition is here."""
    entry = GroupUsage("orders", 7, {MonitoringClass.DISPATCH: Usage(participants=1)})
    payload = encode(UsageReport("b1", 1, 1, 1, (entry,)))

    with pytest.raises(UnknownDefinition, match="b1 reports on definition 7"):
        decode(payload, {6: "orders"})


def columns(**fields: object) -> bytes:
    """A report of two groups in columns, with what else is asked for of publish."""
    info = pb.ResourceUsageInfo(broker="b1", incarnation=1, sequence=1, elapsedNanos=1, since=0)
    info.publish.definitions.extend([5, 2])
    info.publish.messagesPerPeriod.extend([1, 2])
    for name, values in fields.items():
        column = getattr(info.publish, name)
        del column[:]
        column.extend(values)
    return info.SerializeToString()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"messagesPerPeriod": [1]}, "publish.messagesPerPeriod has 1 numbers, one per definition is 2"),
        ({"definitions": []}, "publish.definitions is empty"),
        ({"definitions": [5, 0]}, "publish.definitions has a difference of 0"),
        ({"definitions": [5, 2**63]}, "publish.definitions is 9223372036854775813, more than"),
        ({"definitions": [5, 3]}, "two versions of one group"),
        ({"bytesPerPeriod": [0, 2**63]}, "publish.bytesPerPeriod is 9223372036854775808, more than"),
        ({"bytesLimitPlusOne": [0, 2**64 - 1]}, "publish.bytesLimitPlusOne is 18446744073709551614"),
        ({"bytesThrottledPermille": [1001, 0]}, "publish was throttled for 1001 thousandths"),
    ],
)  # fmt: skip
def test_columns_out_of_order_are_named(fields: dict[str, object], reason: str) -> None:
    """The error says which column, and what is wrong with it; nothing of the report is used."""
    known = {5: "orders", 7: "audit", 8: "orders"}
    assert [entry.group for entry in decode(columns(), known).groups] == ["orders", "audit"]

    with pytest.raises(BadReport, match=reason):
        decode(columns(**fields), known)


def test_a_report_in_disorder_is_bad_also_while_a_definition_is_not_known() -> None:
    """It need not wait to be refused."""
    with pytest.raises(BadReport, match="one per definition is 2"):
        decode(columns(messagesPerPeriod=[1]), {})


def test_groups_told_in_both_ways_are_refused() -> None:
    """Either of two entries of a group could count."""
    info = pb.ResourceUsageInfo.FromString(columns())
    info.usageMap.add(owner="orders")

    with pytest.raises(BadReport, match="usageMap and columns in one report"):
        decode(info.SerializeToString(), {5: "orders", 7: "audit"})


@given(st.binary(max_size=200))
def test_random_bytes_are_a_report_or_a_bad_report(payload: bytes) -> None:
    """Garbage on the bus never raises anything else."""
    with contextlib.suppress(BadReport):
        decode(payload, {})


@pytest.mark.parametrize("field", ["incarnation", "sequence", "elapsedNanos", "since"])
def test_a_report_without_our_fields_is_named_as_such(field: str) -> None:
    """A report of Pulsar's own brokers is not taken for one of a sidecar."""
    info = pb.ResourceUsageInfo.FromString(columns())
    info.ClearField(field)

    with pytest.raises(BadReport, match=f"{field} is missing"):
        decode(info.SerializeToString(), {})


STATEMENT = {"group": "orders", "generation": 1, "version": 0, "holding": [1, 2, 3, 4]}
GRANT = {"broker": "b", "incarnation": 1}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"incarnation": 2**64 - 1}, "incarnation is 18446744073709551615, more than"),
        ({"broker": "x" * 300}, "broker has 300 characters, 1 to 255 are allowed"),
        (
            {"usageMap": [{"owner": "g", "publish": {
                "bytesPerPeriod": 1, "messagesPerPeriod": 1, "messagesThrottledPermille": 1001,
            }}]},
            "publish was throttled for 1001 thousandths",
        ),
        (
            {"escrow": [{**STATEMENT, "holding": [1, 2, 3]}]},
            "escrow.holding has 3 numbers, one per dimension is 4",
        ),
        (
            {"escrow": [{**STATEMENT, "grants": [{**GRANT, "broker": "", "issued": [0] * 4}]}]},
            "escrow.grants.broker has 0 characters",
        ),
        # A sequence means nothing without its incarnation.
        (
            {"answeredSequences": [7, 8], "answeredIncarnations": [3]},
            "answeredSequences has 2 numbers, one per incarnation is 1",
        ),
        # Longer than any sidecar's, before anything is made of them.
        ({"asks": ["b1"] * (MAX_ENTRIES + 1)}, "asks has"),
        ({"answeredIncarnations": [1] * (MAX_ENTRIES + 1)}, "answeredIncarnations has"),
        ({"asks": ["x" * 1_000_000]}, "asks has 1000000 characters"),
        ({"broker": "x" * 1_000_000}, "broker has 1000000 characters"),
        ({"publish": {"definitions": [1] * (MAX_GROUPS + 1)}}, "publish.definitions has"),
        (
            {"usageMap": [{"owner": "g", "configurationVersion": 1}] * (MAX_NAMED_GROUPS + 1)},
            "usageMap has",
        ),
        ({"escrow": [{**STATEMENT, "grants": [GRANT] * (MAX_GRANTS + 1)}]}, "escrow has more grants"),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_named(fields: dict[str, Any], named: str) -> None:
    """The error says which field, what it held and what is allowed."""
    head = {"broker": "b1", "incarnation": 1, "sequence": 1, "elapsedNanos": 1, "since": 0}
    with pytest.raises(BadReport, match=named):
        decode(pb.ResourceUsageInfo(**{**head, **fields}).SerializeToString(), {})


def test_the_digests_of_a_view_cost_18_bytes_a_report() -> None:
    """However many groups there are."""
    silent = UsageReport("b1", 1, 1, 1_000_000_000, ())
    telling = replace(silent, view=ViewDigest(2**32 - 1, 2**31, 1))

    assert len(encode(telling)) - len(encode(silent)) == 18


def test_a_settled_strict_group_costs_few_bytes_more() -> None:
    """A statement without news costs 40 bytes, and a group that is not strict costs none."""
    statement = EscrowStatement("resource-group-1", 2**32, 7, (360_360_000,) * 4)
    empty = UsageReport("b1", 1, 1, 1_000_000_000, ())
    one = UsageReport("b1", 1, 1, 1_000_000_000, (), escrow=(statement,))

    assert len(encode(one)) - len(encode(empty)) <= 56


def test_a_group_costs_few_bytes() -> None:
    """One saturated group with its limits fits into 48 bytes (PIP-82 counts on 112)."""
    usage = Usage(
        messages=1000,
        bytes=1_024_000,
        messages_throttled_permille=1000,
        messages_demand=None,
        bytes_demand=1_044_480,
        messages_limit=1000,
        bytes_limit=10_000_000,
        participants=5,
        topics=5,
    )
    entry = GroupUsage("resource-group-1", 4_294_967_296, {MonitoringClass.PUBLISH: usage})
    empty = UsageReport("b1", 1, 1, 1_000_000_000, ())
    one = UsageReport("b1", 1, 1, 1_000_000_000, (entry,))

    assert len(encode(one)) - len(encode(empty)) <= 48


def test_a_report_of_a_plain_pulsar_broker_is_named_as_such() -> None:
    """It has no influence: nothing in ZooKeeper says that it is a sidecar's."""
    native = pb.ResourceUsageInfo(broker="pulsar://one:6650")
    row = native.usageMap.add(owner="orders")
    row.publish.messagesPerPeriod, row.publish.bytesPerPeriod = 2**63, 2**63

    with pytest.raises(BadReport, match="not sent by a sidecar of this project"):
        head_of(native.SerializeToString())


@pytest.mark.parametrize(
    "fields",
    [
        lambda n: {"incarnation": 2**63 + n},
        lambda n: {"broker": "x" * (300 + n)},
        lambda n: {"asks": ["b"] * (MAX_ENTRIES + 1 + n)},
        lambda n: {"usageMap": [{"owner": "g", "publish": {
            "bytesPerPeriod": 1, "messagesPerPeriod": 1, "messagesThrottledPermille": 1001 + n,
        }}]},
        lambda n: {"answeredSequences": [1] * (1 + n)},
        lambda n: {"escrow": [{**STATEMENT, "holding": [1] * (5 + n)}]},
        lambda n: {"publish": {"definitions": [5, 2], "messagesPerPeriod": [1] * (3 + n)}},
        lambda n: {"publish": {"definitions": [5, 2**63 + n]}},
    ],
)  # fmt: skip
def test_a_payload_makes_up_no_reason(fields: Callable[[int], dict[str, Any]]) -> None:
    """Reasons are counted one by one: what a payload says would make them as many as it likes."""
    head = {"broker": "b1", "incarnation": 1, "sequence": 1, "elapsedNanos": 1, "since": 0}
    reasons, texts = set(), set()
    for number in range(3):
        payload = pb.ResourceUsageInfo(**{**head, **fields(number)}).SerializeToString()
        with pytest.raises(BadReport) as raised:
            decode(payload, {5: "orders", 7: "audit"})
        reasons.add(raised.value.reason)
        texts.add(str(raised.value))

    assert len(texts) == 3
    assert len(reasons) == 1


HEAD = b"\xa0\x06\x01\xa8\x06\x01\xb0\x06\x01\xf0\x06\x00"
"""Incarnation, sequence, time and since."""


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (b"\x0a\x01\xff" + HEAD, "broker"),
        (b"\x0a\x01b" + HEAD + b"\xd2\x06\x01\xff", "asks"),
        (b"\x0a\x01b\x12\x03\x0a\x01\xff" + HEAD, "owner"),
    ],
)
def test_a_name_that_is_no_text_is_refused(payload: bytes, field: str) -> None:
    """Bytes that are no UTF-8 come as bytes, which are no name of any broker or group."""
    with pytest.raises(BadReport, match=f"{field} is no UTF-8"):
        decode(payload, {})


def test_a_sender_whose_name_is_no_text_is_refused() -> None:
    """Before anything is kept of it."""
    with pytest.raises(BadReport, match="broker is no UTF-8") as raised:
        head_of(b"\x0a\x01\xff" + HEAD)
    assert raised.value.reason == "broker is no UTF-8"
