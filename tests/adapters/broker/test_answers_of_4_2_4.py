"""Answers of a real broker (4.2.4), after a gate and others published to one topic.

500 messages came through the gate one by one, 500 in batches, and 300 at the broker's own port; 50 more
by WebSocket are in the topic's statistics. The gate's own counters said 1,000 messages and 147,601 bytes.
``data/metrics-*`` are the lines of the namespace among those of ``/metrics/``, with and without
``exposeTopicLevelMetricsInPrometheus``.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.adapters.broker.publishers import HttpPublisherLists
from coordinator.reconciliation.engine.ways import KnownOrigins, Way, find

DATA = Path(__file__).parent / "data"
TOPIC = "persistent://rec/a/t-0"
THROUGH_THE_GATE = frozenset({("127.0.0.1", 39_066), ("127.0.0.1", 39_080)})


def answering(name: str) -> httpx.MockTransport:
    """A broker that gives the answer of a file."""
    content = (DATA / name).read_bytes()
    return httpx.MockTransport(lambda _: httpx.Response(200, content=content))


@pytest.mark.parametrize("published_only", [True, False])
@pytest.mark.parametrize(
    ("name", "topic"), [("metrics-topics-4.2.4.txt", TOPIC), ("metrics-namespaces-4.2.4.txt", "")]
)
async def test_the_counters_of_a_namespace_are_read(
    name: str, topic: str, *, published_only: bool
) -> None:
    """By topic where the broker lists them; the gate's bytes are the broker's."""
    transport = answering(name)
    async with MetricsCounters(
        "http://b", published_only=published_only, transport=transport
    ) as counters:
        found = {(each.namespace, each.topic): each for each in (await counters.read()).topics}
    count = found["rec/a", topic]
    assert (count.messages, count.bytes) == (1_300, 194_123)


async def test_the_publishers_of_a_topic_are_read() -> None:
    """Two of the gate, a C++ client and the broker's own WebSocket service."""
    async with HttpPublisherLists("http://b", transport=answering("stats-4.2.4.json")) as lists:
        publishers = await lists.publishers(TOPIC)
    around = KnownOrigins(frozenset({"127.0.0.1"}))
    assert len(publishers) == 4
    finding = find(publishers, THROUGH_THE_GATE, around)
    assert finding.way is Way.DIRECT
    assert finding.example is not None
    assert finding.example.client == "Pulsar-CPP-v4.2.0"
    (websocket,) = (each for each in publishers if each.name == "local-1-4")
    assert find([websocket], THROUGH_THE_GATE, around).way is Way.INSIDE_BROKER
