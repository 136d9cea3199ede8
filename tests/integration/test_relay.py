"""A sidecar's address serves pulsar-admin around groups, and clients whose URL is HTTP."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import closing

import pulsar
import pytest

from deploy.clients import quiet_client
from deploy.local.configuration import CLUSTER_NAME
from tests.integration.world import World

pytestmark = pytest.mark.cluster


class Order(pulsar.schema.Record):  # type: ignore[misc]
    """A message with a schema."""

    number = pulsar.schema.Integer()


def admin(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pulsar-admin against one sidecar."""
    return world.cluster.admin(*arguments, url=world.sidecars.admin_url("broker-1"))


@pytest.mark.verify
def test_pulsar_admin_manages_tenants_namespaces_and_groups(world: World) -> None:
    """Every command succeeds by a sidecar's address, and what it makes is there."""
    tenant, namespace, group = f"{world.group}-made", f"{world.group}-made/n", world.group
    for arguments in (
        ("tenants", "create", tenant),
        ("namespaces", "create", namespace, "-b", "4"),
        ("namespaces", "set-retention", namespace, "-t", "1m", "-s", "1M"),
        ("namespaces", "grant-permission", namespace, "--role", "app", "--actions", "produce"),
        ("namespaces", "unload", namespace),
        ("resourcegroups", "create", group, "-mp", "900"),
        ("namespaces", "set-resource-group", "-rgn", group, namespace),
        ("clusters", "get", CLUSTER_NAME),
    ):
        done = admin(world, *arguments)
        assert done.returncode == 0, (arguments, done.stdout + done.stderr)
    assert namespace in admin(world, "namespaces", "list", tenant).stdout.split()
    policies = json.loads(admin(world, "namespaces", "policies", namespace).stdout)
    assert policies["resource_group_name"] == group
    topics = admin(world, "namespaces", "topics", world.namespace).stdout.split()
    assert set(world.topic_of.values()) <= set(topics)


def test_pulsar_admin_is_told_where_to_ask_for_the_rest(world: World) -> None:
    """Its error has the sidecar's reason, with the broker's address."""
    web_url = world.cluster.broker("broker-1").web_url
    refused = admin(world, "topics", "stats", world.topic_of["broker-1"])

    assert refused.returncode != 0
    told = refused.stdout + refused.stderr
    assert f"ask the broker itself: {web_url}" in told, told


def test_a_client_whose_url_is_a_sidecars_http_address_works(world: World) -> None:
    """Partitioned topics, patterns and schemas, through gates."""
    partitioned = f"/admin/v2/persistent/{world.namespace}/parts/partitions"
    web_url = world.cluster.broker("broker-2").web_url
    world.http.put(web_url + partitioned, json=3).raise_for_status()
    with closing(quiet_client(world.sidecars.admin_url("broker-1"))) as client:
        name = f"persistent://{world.namespace}/parts"
        producer = client.create_producer(name, schema=pulsar.schema.JsonSchema(Order))
        whole = client.subscribe(name, "whole", schema=pulsar.schema.JsonSchema(Order))
        pattern = client.subscribe(re.compile(f"{name}.*"), "pattern")
        for number in range(9):
            producer.send(Order(number=number), partition_key=str(number))
        assert sorted(whole.receive(60_000).value().number for _ in range(9)) == list(range(9))
        assert len({pattern.receive(60_000).data() for _ in range(9)}) == 9
    schema = (
        f"{world.sidecars.admin_url('broker-1')}/admin/v2/schemas/{world.namespace}/parts/schema"
    )
    assert world.http.get(schema, follow_redirects=True).json()["type"] == "JSON"
