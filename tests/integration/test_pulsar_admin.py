"""The real pulsar-admin against a sidecar's admin address."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable

import httpx
import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.integration.world import World, eventually

pytestmark = pytest.mark.cluster


def admin(world: World, sidecar: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pulsar-admin against one sidecar."""
    return world.cluster.admin(*arguments, url=world.sidecars.admin_url(sidecar))


@pytest.mark.shows(
    "pip-82/put-group",
    "pip-82/get-group",
    "pip-82/list-groups",
    "pip-82/delete-group",
    "pip-322/no-new-interface",
)
def test_groups_are_created_read_updated_and_deleted(world: World) -> None:
    """Every command goes to another sidecar: all know what one is told."""
    group = world.group
    created = admin(world, "broker-1", "resourcegroups", "create", group, "-mp", "900")
    assert created.returncode == 0, created.stderr
    eventually(
        lambda: group in admin(world, "broker-2", "resourcegroups", "list").stdout.split(), "listed"
    )
    updated = admin(world, "broker-3", "resourcegroups", "update", group, "-bp", "5000")
    assert updated.returncode == 0, updated.stderr

    read = json.loads(admin(world, "broker-1", "resourcegroups", "get", group).stdout)
    assert (read["publishRateInMsgs"], read["publishRateInBytes"]) == (900, 5000)
    assert read["dispatchRateInMsgs"] == -1
    eventually(
        lambda: {row["publishRateInBytes"] for row in world.local_limits().values()} == {8},
        "in force at every sidecar",
    )
    deleted = admin(world, "broker-2", "resourcegroups", "delete", group)
    assert deleted.returncode == 0, deleted.stderr
    gone = world.http.get(f"{world.sidecars.admin_url('broker-1')}/admin/v2/resourcegroups/{group}")
    assert gone.status_code == httpx.codes.NOT_FOUND


def test_a_limit_with_a_fraction_is_0_to_pulsar_admin_and_stays_when_it_changes_another(
    world: World,
) -> None:
    """Its numbers are whole; what it does not name keeps its fraction."""
    group = world.group
    world.limit(publishRateInMsgs=0.5)

    read = json.loads(admin(world, "broker-1", "resourcegroups", "get", group).stdout)
    updated = admin(world, "broker-2", "resourcegroups", "update", group, "-bd", "5000")

    assert read["publishRateInMsgs"] == 0
    assert updated.returncode == 0, updated.stderr
    found = world.get(f"/quota/v1/groups/{group}", at="broker-2")
    assert (found["publishRateInMsgs"], found["dispatchRateInBytes"]) == (0.5, 5000)


@pytest.mark.verify
@pytest.mark.shows("pip-82/attach-namespace")
def test_namespaces_are_attached_and_detached(world: World) -> None:
    """set-, get- and remove-resource-group; a group in use is not deleted."""
    admin(world, "broker-1", "resourcegroups", "create", world.group, "-mp", "900")
    attach = ("namespaces", "set-resource-group", "-rgn", world.group, world.namespace)
    attached = admin(world, "broker-2", *attach)
    assert attached.returncode == 0, attached.stderr
    read = admin(world, "broker-3", "namespaces", "get-resource-group", world.namespace)
    assert read.stdout.strip() == world.group

    refused = admin(world, "broker-1", "resourcegroups", "delete", world.group)
    assert refused.returncode != 0
    assert "ResourceGroup is in use" in refused.stdout + refused.stderr
    detach = ("namespaces", "remove-resource-group", world.namespace)
    assert admin(world, "broker-1", *detach).returncode == 0
    assert admin(world, "broker-2", "resourcegroups", "delete", world.group).returncode == 0
    gone = admin(world, "broker-3", "resourcegroups", "get", world.group)
    assert gone.returncode != 0
    assert "does not exist" in gone.stdout + gone.stderr


def test_metrics_of_a_running_sidecar_are_valid(world: World) -> None:
    """The official parser takes them, and the group's limit stands in them."""
    world.limit(publishRateInMsgs=900)
    url = world.sidecars.admin_url("broker-1") + "/metrics"
    headers = {"Accept": "application/openmetrics-text;version=1.0.0"}

    def limits() -> dict[str, float]:
        text = world.http.get(url, headers=headers).text
        families: Iterable[Metric] = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        return {
            sample.labels["group"]: sample.value
            for family in families
            if family.name == "pulsar_quota_cluster_limit_messages_per_second"
            for sample in family.samples
        }

    eventually(lambda: limits().get(world.group) == 900, "the limit in the metrics")
