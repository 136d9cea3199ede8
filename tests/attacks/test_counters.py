"""Names that clients choose make up no counter of a broker, and hide none without a word."""

from __future__ import annotations

from contextlib import closing, suppress

import httpx
import pytest

from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.adapters.broker.evictions import evictions_in
from coordinator.native.engine.counting import CounterReading
from coordinator.ports.errors import BrokerUnreachable
from deploy.clients import quiet_client
from deploy.local.state import Broker
from tests.integration.world import World, broker_metrics

pytestmark = pytest.mark.cluster

FORGED = 987_654_321
ANSWERS_500 = 3
"""One is rare; three in a row are a fault."""
LINES = (
    f"}} {FORGED}\n",
    f'"}} {FORGED}\n',
    f'\\"}} {FORGED}\n',
    f'\npulsar_in_messages_total{{namespace="t"}} {FORGED}\n',
    f'\nprocess_start_time_seconds{{cluster="local"}} {FORGED}\n',
    f"\nprocess_start_time_seconds {FORGED}\n",
    f'\npulsar_storage_backlog_quota_exceeded_evictions_total{{quota_type="size"}} {FORGED}\n',
)
"""A broker writes a name into its metrics with its line feeds and braces, and escapes its quotes."""


async def test_no_name_makes_up_a_counter_or_a_start(free_world: World) -> None:
    """Of topics and of subscriptions, by a stock client that connects to the broker itself."""
    brokers = free_world.cluster.brokers
    named = f"non-persistent://{free_world.namespace}/hostile"
    before = [await read(broker) for broker in brokers]
    with closing(quiet_client(brokers[0].service_url)) as client:
        for number, line in enumerate(LINES):
            client.subscribe(f"{named}-{number}", f"s{line}x")
            client.create_producer(f"{named}{line}x").send(b"x")
        texts = [broker_metrics(free_world.http, broker) for broker in brokers]
        after = [await read(broker) for broker in brokers]
    assert any(f" {FORGED}\n" in text for text in texts), "the brokers wrote none of the names"
    assert [each.started_s for each in before] == [each.started_s for each in after]
    assert None not in [each.started_s for each in after]
    assert not [count for each in after for count in each.topics if FORGED in count[2:]]
    # Another test's topics may be there already.
    told_before = {namespace for each in before for namespace in each.uncounted}
    told = {namespace for each in after for namespace in each.uncounted}
    assert told - told_before == {free_world.namespace}
    async with httpx.AsyncClient(trust_env=False, timeout=30.0) as asking:
        for broker in brokers:
            async with asking.stream("GET", f"{broker.web_url}/metrics/") as answer:
                assert FORGED not in (await evictions_in(answer.aiter_bytes())).values()


async def read(broker: Broker) -> CounterReading:
    """Return the counters as a sidecar reads them, which asks again as `broker_metrics` does."""
    async with MetricsCounters(broker.web_url) as counters:
        for _ in range(ANSWERS_500):
            with suppress(BrokerUnreachable):
                return await counters.read()
        return await counters.read()
