"""Golden bytes both ways: Pulsar's own reports and ours, against a real broker."""

from __future__ import annotations

import pulsar
import pytest

from coordinator.core.model import GroupUsage, MonitoringClass, Usage, UsageReport
from coordinator.core.topics import RESOURCE_USAGE_TOPIC
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.reports import encode
from tests.conftest import Connect
from tests.integration.world import World, broker_metrics, eventually

pytestmark = pytest.mark.cluster


def use_a_group_of_pulsars_own(world: World) -> str:
    """Attach the test's namespace to a resource group of the brokers themselves."""
    group = f"own-{world.group}"
    base = f"{world.cluster.web_url()}/admin/v2"
    rates = {"publishRateInMsgs": 1_000_000, "publishRateInBytes": 1_000_000_000}
    world.http.put(f"{base}/resourcegroups/{group}", json=rates).raise_for_status()
    path = f"{base}/namespaces/{world.namespace}/resourcegroup/{group}"
    world.http.post(path).raise_for_status()
    return group


@pytest.mark.shows("pip-82/protobuf", "pip-82/absolute-usage")
def test_a_real_brokers_report_is_understood(world: World, connect: Connect) -> None:
    """A broker's report is parsed, means what was sent, and encodes to the same bytes again."""
    group = use_a_group_of_pulsars_own(world)
    client = connect(world.cluster.brokers[0].service_url)
    reader = client.create_reader(RESOURCE_USAGE_TOPIC, pulsar.MessageId.latest)
    producer = connect(world.sidecars.service_url).create_producer(world.topic_of["broker-1"])
    for _ in range(10):
        producer.send(b"x" * 50)

    told: list[int] = []

    def counted() -> bool:
        payload = reader.read_next(timeout_millis=30_000).data()
        info = pb.ResourceUsageInfo.FromString(payload)
        assert info.SerializeToString() == payload
        assert info.broker.startswith("pulsar://127.0.0.1:")
        told.extend(row.publish.messagesPerPeriod for row in info.usageMap if row.owner == group)
        return sum(told) == 10

    eventually(counted, "reports of ten messages, which may belong to two periods")


@pytest.mark.shows("pip-82/protobuf")
def test_our_report_is_read_by_a_real_broker(world: World, connect: Connect) -> None:
    """A broker counts what our report says, and skips the fields that it does not know."""
    group = use_a_group_of_pulsars_own(world)
    usage = Usage(messages=123, bytes=4567, messages_demand=9, messages_limit=7, participants=3)
    entry = GroupUsage(group, 77, {MonitoringClass.PUBLISH: usage})
    report = UsageReport(
        "pulsar://sidecar:1", 5, 9, 1_000_000_000, (entry,), complete=True, named=True
    )
    client = connect(world.cluster.brokers[0].service_url)
    producer = client.create_producer(RESOURCE_USAGE_TOPIC)
    metric = "pulsar_resource_group_remote_usage_messages_used_total"

    def counted() -> bool:
        producer.send(encode(report))
        text = broker_metrics(world.http, world.cluster.brokers[0])
        counts = [
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith(metric)
            and f'ResourceGroup="{group}"' in line
            and 'RemoteBroker="pulsar://sidecar:1"' in line
        ]
        return any(count > 0 and count % 123 == 0 for count in counts)

    eventually(counted, "the broker counts 123 messages of a remote broker")
