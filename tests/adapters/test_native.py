"""The adapter reads brokers' counters, configuration and records, and any bytes on the topic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import httpx
import pytest

from coordinator.adapters.broker.counters import MetricsCounters, add_lines
from coordinator.adapters.broker.metrics_text import LONGEST_LINE, whole_lines
from coordinator.adapters.broker.native_admin import HttpNativeAdmin, facts_in
from coordinator.adapters.pulsar.native_messages import decode, encode
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.entries import Amounts, Record
from coordinator.native.engine.outside import BrokerFacts
from coordinator.ports import BrokerUnreachable, Refused
from coordinator.reconciliation.engine.counting import ENDED
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.fields import BadReport

SEED = 22
METRICS = b"""# TYPE process_start_time_seconds gauge
process_start_time_seconds{cluster="c"} 1.795711186672E9
# TYPE pulsar_in_messages_total counter
pulsar_in_messages_total{cluster="c",namespace="t/n",topic="persistent://t/n/a"} 8344
pulsar_in_messages_total{cluster="c",namespace="t/n",topic="persistent://t/n/b"} 1.0E7
pulsar_in_bytes_total{cluster="c",namespace="t/n",topic="persistent://t/n/a"} 870760
pulsar_producers_count{cluster="c",namespace="t/n",topic="persistent://t/n/a"} 2
pulsar_publish_rate_limit_times{cluster="c",namespace="t/n",topic="persistent://t/n/a"} 98
pulsar_out_messages_total{cluster="c",namespace="t/n",topic="persistent://t/n/a",subscription="s"} 5
pulsar_out_messages_total{cluster="c",namespace="t/n",topic="persistent://t/n/a",subscription="r"} 6
pulsar_out_messages_total{namespace="t/n",topic="persistent://t/n/a",subscription="r",consumer_name="x"} 6
pulsar_rate_in{cluster="c",namespace="t/n",topic="persistent://t/n/a"} 2.2
pulsar_broker_out_bytes_total{cluster="c",system_subscription="false"} 900
pulsar_broker_out_bytes_total{cluster="c",system_subscription="true"} 77
pulsar_in_messages_total{cluster="c",namespace="t/whole"} 12
"""


def answering(answers: dict[str, httpx.Response]) -> httpx.MockTransport:
    """A broker that answers by method and path."""
    return httpx.MockTransport(lambda request: answers[f"{request.method} {request.url.path}"])


async def test_counters_are_read_in_whatever_pieces_they_arrive() -> None:
    """Topics where they are told apart, else namespaces; what is sent, by subscription."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(METRICS), 7):
            yield METRICS[start : start + 7]

    answer = httpx.Response(200, content=pieces())
    async with MetricsCounters(
        "http://b", transport=answering({"GET /metrics/": answer})
    ) as counters:
        reading = await counters.read()

    found = {count.topic: count for count in reading.topics}
    assert reading.started_s == 1795711186.672
    assert found["persistent://t/n/a"][2:] == (8344, 870760, 11, 0, 2, 0, 98, "", "")
    assert found["persistent://t/n/b"].messages == 10**7
    assert found[""] == TopicCount("t/whole", "", 12)


class Connection:
    """The two ends of an answer's connection; `network_stream` of httpx."""

    def __init__(self, here: str, there: str) -> None:
        self._ends = {"client_addr": (here, 40_000), "server_addr": (there, 8080)}

    def get_extra_info(self, name: str) -> tuple[str, int]:
        """One of them."""
        return self._ends[name]


@pytest.mark.parametrize(
    ("there", "second"), [("10.0.0.1", "identity"), ("10.0.0.2", "gzip"), (None, "gzip")]
)
async def test_a_broker_on_this_host_is_asked_not_to_compress(
    there: str | None, second: str
) -> None:
    """From the second reading on, as the first tells where it is; one elsewhere goes on compressing."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["Accept-Encoding"].partition(",")[0])
        ends = {} if there is None else {"network_stream": Connection("10.0.0.1", there)}
        return httpx.Response(200, content=METRICS, extensions=ends)

    async with MetricsCounters("http://b", transport=httpx.MockTransport(answer)) as counters:
        readings = [await counters.read() for _ in range(2)]
    assert asked == ["gzip", second]
    assert readings[0] == readings[1]


async def test_a_subscription_is_counted_once_more_by_itself() -> None:
    """With its own consumers; topics count all of theirs as before, and others are not told apart."""
    text = METRICS + b"".join(
        b'pulsar_subscription_consumers_count{namespace="t/n",topic="persistent://t/n/a",'
        b'subscription="%b"} %d\n' % (name, consumers)
        for name, consumers in ((b"r", 3), (b"s", 4))
    )
    transport = answering({"GET /metrics/": httpx.Response(200, content=text)})
    async with MetricsCounters("http://b", transport=transport) as counters:
        reading = await counters.read(["persistent/t/n/a/r", "persistent/t/n/b/r"])
    found = {
        (count.topic, count.subscription): (count.out_messages, count.consumers)
        for count in reading.topics
    }
    assert found["persistent://t/n/a", ""] == (11, 0)
    assert found["persistent://t/n/a", "r"] == (6, 3)
    assert [subscription for _, subscription in found if subscription] == ["r"]


async def test_counters_of_what_passed_can_be_read_alone_by_subscription() -> None:
    """All else is left out; the end of a subscription then makes no other count fall."""
    transport = answering({"GET /metrics/": httpx.Response(200, content=METRICS)})
    async with MetricsCounters("http://b", passed_only=True, transport=transport) as counters:
        reading = await counters.read()

    *_, whole = (count for count in reading.topics if count.namespace == ENDED)
    assert whole == TopicCount(ENDED, "", out_bytes=977)
    found = {
        (count.topic, count.subscription): count[2:9]
        for count in reading.topics
        if count is not whole
    }
    topic = "persistent://t/n/a"
    assert reading.started_s == 1795711186.672
    assert found[topic, ""] == (8344, 870760, 0, 0, 0, 0, 0)
    assert found[topic, "s"] == (0, 0, 5, 0, 0, 0, 0)
    assert found[topic, "r"] == (0, 0, 6, 0, 0, 0, 0)
    assert found["", ""] == (12, 0, 0, 0, 0, 0, 0)


def test_partitions_that_are_told_apart_by_a_label_are_topics_of_their_own() -> None:
    """As with splitTopicAndPartitionIndexLabel; a sum over those loaded here would fall."""
    sums: dict[tuple[str, str, str], dict[str, int]] = {}
    labels = (
        b'pulsar_in_messages_total{namespace="t/n",topic="persistent://t/n/a",partition="%s"} 5'
    )
    add_lines(b"\n".join(labels % each for each in (b"-1", b"0", b"1")), sums, set())
    topic = "persistent://t/n/a"
    assert {name for _, name, _ in sums} == {topic, f"{topic}-partition-0", f"{topic}-partition-1"}


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("persistent://t/n/a} 9\nx", []),
        ('persistent://t/n/a\\"} 9\nx', []),
        ('persistent://t/n/a\\\\"} 9\nx', []),
        ('persistent://t/n/a\npulsar_in_messages_total{namespace=\\"t/n\\"} 9\nx', []),
        ('persistent://t/n/a\nprocess_start_time_seconds{cluster=\\"c\\"} 9\nx', []),
        ("persistent://t/n/a\nprocess_start_time_seconds 9\nx", []),
        ("persistent://t/n/a\\", []),
        ("persistent://t/n/a}b", [5]),
    ],
)
async def test_no_name_of_a_client_makes_up_a_counter_or_a_start(
    name: str, counted: list[int]
) -> None:
    """As a broker of 4.2.4 writes them: quotes escaped, line feeds and braces as they are.

    A line that such a name cuts is told by its namespace.
    """
    line = f'pulsar_in_messages_total{{cluster="c",namespace="t/n",topic="{name}"}} 5\n'
    transport = answering({"GET /metrics/": httpx.Response(200, content=line.encode())})
    async with MetricsCounters("http://b", transport=transport) as counters:
        reading = await counters.read()
    assert [count.messages for count in reading.topics] == counted
    assert reading.started_s is None
    assert reading.uncounted == (frozenset() if counted else {"t/n"})


@pytest.mark.parametrize("end", [b"", b'"} 5\n', b'"} 5\n' + METRICS])
async def test_a_line_that_is_too_long_is_told_by_its_namespace(end: bytes) -> None:
    """It would fill the memory, and a client can make one by the name of a topic; others are read."""
    long = b'pulsar_in_messages_total{namespace="t/long",topic="persistent://t/long/%b' % (
        b"x" * 300_000
    )
    transport = answering({"GET /metrics/": httpx.Response(200, content=METRICS + long + end)})
    async with MetricsCounters("http://b", transport=transport) as counters:
        reading = await counters.read()
    assert reading.uncounted == {"t/long"}
    assert "t/long" not in {count.namespace for count in reading.topics}
    assert sum(count.messages for count in reading.topics) == (8344 + 10**7 + 12) * (
        2 if end.endswith(METRICS) else 1
    )


async def test_no_more_of_an_answer_is_held_than_a_line_may_be_long() -> None:
    """In pieces that are smaller than that."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 10_000
        yield b"\n"

    held = [len(lines) async for lines in whole_lines(pieces())]
    assert max(held) <= LONGEST_LINE


@pytest.mark.parametrize(
    ("status", "error"), [(401, Refused), (403, Refused), (500, BrokerUnreachable)]
)
async def test_a_broker_that_does_not_tell_is_an_error(status: int, error: type[Exception]) -> None:
    """Refused and unreachable are never one."""
    transport = answering({"GET /metrics/": httpx.Response(status)})
    async with MetricsCounters("http://b", transport=transport) as counters:
        with pytest.raises(error):
            await counters.read()


def test_lines_of_nonsense_are_no_counters() -> None:
    """This holds for any text."""
    sums: dict[tuple[str, str, str], dict[str, int]] = {}
    random = Random(SEED)
    for _ in range(2_000):
        line = bytearray(random.choice(METRICS.splitlines()))
        for _ in range(3):
            line[random.randrange(len(line))] = random.randrange(256)
        add_lines(bytes(line), sums, set())
    add_lines(b"pulsar_in_messages_total{} 1\npulsar_in_messages_total 5\n", sums, set())
    whole = METRICS.splitlines()[-1].removesuffix(b" 12").replace(b"t/whole", b"t/odd")
    for value in (b"1.2.3", b"1e5e", b"+", b"e", b".", b"1e999", b"9" * 9_999 + b"e1"):
        add_lines(b"%b %b" % (whole, value), sums, set())
    assert ("t/odd", "", "") not in sums
    assert ("", "", "") not in sums


@pytest.mark.parametrize(
    ("listeners", "internal", "url"),
    [
        ("internal:pulsar://h:1,external:pulsar://h:2", "internal", "pulsar://h:1"),
        ("a:pulsar://h:1,b:pulsar://h:2", "null", "pulsar://h:1"),
        ("a:pulsar+ssl://h:1, a:pulsar://h:2", "a", "pulsar://h:2"),
        ("null", "null", "pulsar://me:6650"),
        ("", "", "pulsar://me:6650"),
    ],
)
def test_the_name_that_a_broker_reports_in(listeners: str, internal: str, url: str) -> None:
    """That of its internal listener."""
    body = {
        "advertisedListeners": listeners,
        "internalListenerName": internal,
        "advertisedAddress": "me",
        "brokerServicePort": "Optional[6650]",
        "resourceUsageTransportClassName": "null",
        "resourceUsageTransportPublishIntervalInSecs": "60",
    }
    assert facts_in(body, "4.2.4") == BrokerFacts(url, 60, "", version="4.2.4")
    without = facts_in(body | {"topicLevelPoliciesEnabled": "false"})
    assert without == BrokerFacts(url, 60, "", topic_policies=False)


def test_a_broker_without_a_plain_port_reports_in_no_name() -> None:
    """That is said, not guessed."""
    with pytest.raises(ValueError, match="no plain port"):
        facts_in({"advertisedListeners": "", "brokerServicePort": "Optional.empty"})


async def test_records_are_read_and_nonsense_is_an_error() -> None:
    """A group that is not there is None; a field that is not there is not limited."""
    answers = {
        "GET /admin/v2/resourcegroups/g": httpx.Response(200, json={"publishRateInMsgs": 7}),
        "GET /admin/v2/resourcegroups/none": httpx.Response(404),
        "GET /admin/v2/resourcegroups/odd": httpx.Response(200, json=[]),
        "GET /admin/v2/resourcegroups/text": httpx.Response(200, text="<html>"),
        "GET /admin/v2/resourcegroups/deep": httpx.Response(200, text="[" * 100_000),
        "GET /admin/v2/resourcegroups/huge": httpx.Response(
            200, text='{"publishRateInMsgs": 1e999}'
        ),
        "GET /admin/v2/resourcegroups/mine": httpx.Response(403),
        "GET /admin/v2/brokers/version": httpx.Response(200, text="4.2.4"),
        "GET /admin/v2/brokers/configuration/runtime": httpx.Response(200, json={}),
    }
    async with HttpNativeAdmin("http://b", transport=answering(answers)) as admin:
        assert await admin.record("g") == Record(7, -1)
        assert await admin.record("none") is None
        for name in ("odd", "text", "deep", "huge"):
            with pytest.raises(BrokerUnreachable):
                await admin.record(name)
        with pytest.raises(Refused):
            await admin.record("mine")
        with pytest.raises(BrokerUnreachable):
            await admin.facts()
        with pytest.raises(ValueError, match="not a name"):
            await admin.record("a/b")


def test_entries_are_what_brokers_read() -> None:
    """The fields that Pulsar's own proto has."""
    payload = encode("pulsar://a:1", {"g": Amounts(1_500, 2**40)})
    message = pb.ResourceUsageInfo.FromString(payload)

    assert (message.broker, message.usageMap[0].owner) == ("pulsar://a:1", "g")
    assert message.usageMap[0].publish.messagesPerPeriod == 1_500
    assert message.usageMap[0].publish.bytesPerPeriod == 2**40
    assert decode(payload) == ("pulsar://a:1", {"g": Amounts(1_500, 2**40)}, frozenset("g"))


def test_a_group_without_amounts_is_named_all_the_same() -> None:
    """A broker names each group that it knows, and leaves out what did not change."""
    message = pb.ResourceUsageInfo(broker="b")
    message.usageMap.add(owner="g")
    assert decode(message.SerializeToString()) == ("b", {}, frozenset("g"))


def test_any_bytes_are_a_message_or_refused() -> None:
    """Nothing else happens."""
    random = Random(SEED)
    payload = encode("pulsar://a:1", {"g": Amounts(1, 2), "h": Amounts(3, 4)})
    for _ in range(5_000):
        spoilt = bytearray(payload)
        for _ in range(random.randint(1, 4)):
            spoilt[random.randrange(len(spoilt))] = random.randrange(256)
        try:
            broker, amounts, named = decode(bytes(spoilt[: random.randrange(len(spoilt))]))
        except BadReport:
            continue
        assert broker, f"seed {SEED}"
        assert named >= amounts.keys(), f"seed {SEED}"
        assert all(min(found) >= 0 for found in amounts.values()), f"seed {SEED}"


@pytest.mark.parametrize(
    ("payload", "field"), [(b"\x0a\x01\xff", "broker"), (b"\x0a\x01b\x12\x03\x0a\x01\xff", "owner")]
)
def test_an_entry_with_a_name_that_is_no_text_is_refused(payload: bytes, field: str) -> None:
    """Bytes that are no UTF-8 come as bytes, and stand in no order with names."""
    with pytest.raises(BadReport, match=f"{field}: no UTF-8"):
        decode(payload)
