"""Pulsar's own resource groups, for comparison: no sidecars, the group made by the brokers' REST."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from deploy.demo.system import GROUP, NAMESPACE, BrokerStatus, RestCall, System
from deploy.local import rest
from deploy.local.configuration import CLUSTER_NAME


class PulsarGroups(System):
    """A cluster that was started with `own_resource_groups`."""

    name = "Pulsar's resource groups"
    own_resource_groups = True

    @property
    def addresses(self) -> str:
        """The brokers' admin REST."""
        return " ".join(broker.web_url for broker in self.brokers.values())

    def set_up(self, limit: int) -> dict[str, str]:
        """Create group and topics, and attach the namespace."""
        self.set_limit(limit)
        topics = self.make_topics(GROUP)
        self._ask("POST", f"/admin/v2/namespaces/{NAMESPACE}/resourcegroup/{GROUP}")
        return topics

    def set_limit(self, limit: int) -> RestCall:
        """Change the group's limit."""
        sent_s = time.monotonic()
        self._ask("PUT", f"/admin/v2/resourcegroups/{GROUP}", {"publishRateInMsgs": limit})
        return RestCall(sent_s, time.monotonic())

    def is_gone(self, broker: str) -> bool:
        """Say whether the broker's ZooKeeper session has ended."""
        listed = json.loads(self._ask("GET", f"/admin/v2/brokers/{CLUSTER_NAME}"))
        return all(
            entry.rpartition(":")[2] != str(self.brokers[broker].web_port) for entry in listed
        )

    def statuses(self) -> Mapping[str, BrokerStatus]:
        """Return which brokers run; Pulsar does not say what a broker's part of a limit is."""
        state = self.cluster.state
        return {
            name: BrokerStatus("UP" if state.server(name).alive else "DOWN", None)
            for name in self.brokers
        }

    def _ask(self, method: str, path: str, body: object = None) -> str:
        # Any broker will do that is not going to die.
        first = next(iter(self.brokers.values()))
        return rest.request(method, f"{first.web_url}{path}", body)
