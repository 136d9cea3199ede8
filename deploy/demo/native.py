"""Sidecars without gates: Pulsar's own limiter is steered, and clients talk to the brokers themselves.

The broker that dies does not serve the topic of entries. If it did, the others would keep their parts
until they find the topic's new owner: Pulsar's client asks 3, 6 and 13 s after the loss, whatever the
sidecars do (docs/native.md, dead brokers).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from coordinator.core.topics import RESOURCE_USAGE_TOPIC
from deploy.demo.sidecars import SidecarCluster
from deploy.demo.system import GROUP, SENT_GROUP, TENANT, System
from deploy.demo.targets import NATIVE
from deploy.local import rest
from deploy.local.waiting import wait_until


class NativeSidecars(SidecarCluster):
    """A cluster with a sidecar beside each broker, and nothing between clients and brokers."""

    name = "pulsar-quota, native"
    own_resource_groups = True
    resource_group_interval_s = 1
    targets = NATIVE
    settings: ClassVar[Mapping[str, object]] = {"enforcement_path": "native"}

    #: The brokers themselves.
    client_url = System.client_url

    def set_up(self, limit: int) -> dict[str, str]:
        """Wait as well until Pulsar has the group and the namespace is attached to it."""
        topics = super().set_up(limit)
        wait_until(
            lambda: GROUP in self._policy(GROUP, "resourcegroup"), "Pulsar has no attachment"
        )
        first, mortal, *_ = self.brokers.values()
        if self.topics.owner(RESOURCE_USAGE_TOPIC) == mortal:
            self.topics.move(RESOURCE_USAGE_TOPIC, first)
        return topics

    def limit_dispatch(self, limit: int) -> dict[str, str]:
        """Wait as well until new topics of the namespace have a dispatch rate."""
        topics = super().limit_dispatch(limit)
        wait_until(lambda: bool(self._policy(SENT_GROUP, "dispatchRate")), "Topics have no rate")
        return topics

    def _policy(self, namespace: str, name: str) -> str:
        """Return a policy of one of the demo's namespaces as Pulsar has it; empty is none."""
        first = next(iter(self.brokers.values()))
        path = f"/admin/v2/namespaces/{TENANT}/{namespace}/{name}"
        return rest.request("GET", f"{first.web_url}{path}")
