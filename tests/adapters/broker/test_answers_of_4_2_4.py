"""Answers of a real broker (4.2.4), after a gate and others published to one topic.

500 messages came through the gate one by one, 500 in batches, and 300 at the broker's own port. The
gate's own counters said 1,000 messages and 147,601 bytes.
``data/metrics-*`` are the lines of the namespace among those of ``/metrics/``, with and without
``exposeTopicLevelMetricsInPrometheus``.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from coordinator.adapters.broker.counters import MetricsCounters

DATA = Path(__file__).parent / "data"
TOPIC = "persistent://rec/a/t-0"


def answering(name: str) -> httpx.MockTransport:
    """A broker that gives the answer of a file."""
    content = (DATA / name).read_bytes()
    return httpx.MockTransport(lambda _: httpx.Response(200, content=content))


@pytest.mark.parametrize("passed_only", [True, False])
@pytest.mark.parametrize(
    ("name", "topic"), [("metrics-topics-4.2.4.txt", TOPIC), ("metrics-namespaces-4.2.4.txt", "")]
)
async def test_the_counters_of_a_namespace_are_read(
    name: str, topic: str, *, passed_only: bool
) -> None:
    """By topic where the broker lists them; the gate's bytes are the broker's."""
    transport = answering(name)
    async with MetricsCounters(
        "http://b", passed_only=passed_only, transport=transport
    ) as counters:
        found = {(each.namespace, each.topic): each for each in (await counters.read()).topics}
    count = found["rec/a", topic]
    assert (count.messages, count.bytes) == (1_300, 194_123)
