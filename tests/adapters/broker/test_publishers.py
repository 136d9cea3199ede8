"""The publishers in a broker's statistics, and the addresses that Java writes."""

from __future__ import annotations

import httpx
import pytest

from coordinator.adapters.broker.publishers import (
    PUBLISHERS_MAX,
    TOPICS_MAX,
    HttpPublisherLists,
    address_in,
)
from coordinator.ports import BrokerUnreachable, NotFound, Refused
from coordinator.reconciliation.engine.ways import ListedPublisher

TOPIC = "persistent://t/n/orders eu-partition-3"
PATH = "/admin/v2/persistent/t/n/orders%20eu-partition-3/stats"
LISTED = {
    "accessMode": "Shared",
    "msgRateIn": 199.97,
    "msgThroughputIn": 25_597.2,
    "averageMsgSize": 128.0,
    "producerId": 0,
    "supportsPartialProducer": False,
    "producerName": "quota-0-7",
    "address": "/10.0.0.9:53210",
    "connectedSince": "2026-11-23T17:30:00.123Z",
    "clientVersion": "Pulsar-CPP-v3.5.1",
    "metadata": {"application": "pulsar-function"},
}


def lists(answer: httpx.Response) -> HttpPublisherLists:
    """A broker that gives one answer."""
    return HttpPublisherLists("http://b", transport=httpx.MockTransport(lambda _: answer))


async def test_publishers_are_read_from_a_topics_statistics() -> None:
    """The name is encoded, and the producer's own properties are kept."""
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.partition(b"?")[0])
        return httpx.Response(200, json={"publishers": [LISTED, {"producerName": None}]})

    async with HttpPublisherLists("http://b", transport=httpx.MockTransport(answer)) as found:
        publishers = await found.publishers(TOPIC)
    assert asked == [PATH.encode()]
    assert publishers == [
        ListedPublisher(
            TOPIC, "quota-0-7", "10.0.0.9", 53_210, "Pulsar-CPP-v3.5.1", 199.97,
            {"application": "pulsar-function"},
        ),
        ListedPublisher(TOPIC, ""),
    ]  # fmt: skip


async def test_no_more_publishers_and_topics_are_read_than_are_looked_at() -> None:
    """A topic may have ten thousand."""
    many = httpx.Response(200, json={"publishers": [LISTED] * (PUBLISHERS_MAX + 1)})
    async with lists(many) as found:
        assert len(await found.publishers(TOPIC)) == PUBLISHERS_MAX
    many = httpx.Response(200, json=[TOPIC] * (TOPICS_MAX + 1))
    async with lists(many) as found:
        assert len(await found.topics("t/n")) == 2 * TOPICS_MAX


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(401), Refused),
        (httpx.Response(403), Refused),
        (httpx.Response(404), NotFound),
        (httpx.Response(307, headers={"location": "http://other"}), NotFound),
        (httpx.Response(500), BrokerUnreachable),
        (httpx.Response(200, text="no JSON"), BrokerUnreachable),
        (httpx.Response(200, json={}), BrokerUnreachable),
        (httpx.Response(200, json=[1]), BrokerUnreachable),
        (httpx.Response(200, json={"publishers": [{"msgRateIn": "x"}]}), BrokerUnreachable),
    ],
)
async def test_an_answer_without_publishers_is_an_error(
    answer: httpx.Response, error: type[Exception]
) -> None:
    """Refused, gone and unreachable are never one; a redirect says that another broker has it."""
    async with lists(answer) as found:
        with pytest.raises(error):
            await found.publishers(TOPIC)


async def test_a_list_of_topics_of_another_form_is_an_error() -> None:
    """It is not read as an empty one."""
    async with lists(httpx.Response(200, json={})) as found:
        with pytest.raises(BrokerUnreachable):
            await found.topics("t/n")


async def test_a_name_that_is_no_topic_is_not_asked_for() -> None:
    """A list of the broker could hold one."""
    async with lists(httpx.Response(500)) as found:
        with pytest.raises(NotFound):
            await found.publishers("ftp://t/n/orders")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/10.0.0.9:53210", ("10.0.0.9", 53_210)),
        ("client.example/10.0.0.9:53210", ("10.0.0.9", 53_210)),
        ("/[0:0:0:0:0:0:0:1]:53210", ("::1", 53_210)),
        ("/[fe80:0:0:0:0:0:0:7%eth0]:5", ("fe80::7", 5)),
        ("/0:0:0:0:0:0:0:1%0:53210", ("::1", 53_210)),
        ("", ("", 0)),
        ("nonsense", ("", 0)),
        ("/10.0.0.9:", ("", 0)),
    ],
)
def test_addresses_are_read_as_java_writes_them(text: str, address: tuple[str, int]) -> None:
    """In the shortest form of the address, which is that of sockets."""
    assert address_in(text) == address
