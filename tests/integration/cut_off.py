"""Sidecars that can be cut off from ZooKeeper and from the bus, each by itself.

Links stand between every sidecar and both (deploy.chaos.network_paths). Their times are as short as they
can be told apart on a machine that may stand still for three seconds. What they do is
recorded.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from deploy.chaos.links import Links, Treatment
from deploy.chaos.network_paths import NetworkPaths, open_network_paths
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker

STALLED = Treatment(stalled_out=True, stalled_back=True)
SEVERED = Treatment(severed=True)

#: Of the first broker's sidecar, which tests cut off from ZooKeeper: a lease ends a third of it later at
#: the earliest, and until then the sidecar only holds its limits.
LONG_SESSION_S = 18.0
SESSION_S = 4.0
ROUND_S = 0.5
#: Sidecars notice a silence up to three seconds one after the other: a silent round needs no report.
HOLD_S = 8.0
_RECORD_FILE_S = 1.0


class CutOff:
    """Sidecars beside all brokers, and the links that lead to them.

    Args:
        cluster: running, with `deploy.chaos.LISTENERS`; no sidecars beside it.
        directory: for configurations, records and logs.
        links: entered.
    """

    def __init__(self, cluster: Cluster, directory: Path, links: Links) -> None:
        self.links = links
        self.directory = directory
        self.sidecars = Sidecars(cluster, directory)
        #: By sidecar.
        self.network_paths = open_network_paths(links, cluster)
        self._root = f"/{uuid.uuid4().hex}"
        for broker in cluster.brokers:
            self._configure(cluster, broker, self.network_paths[broker.name])

    def record_dir(self, name: str) -> Path:
        """Where a broker's sidecar records."""
        return self.directory / "recorded" / name

    def _configure(self, cluster: Cluster, broker: Broker, network_paths: NetworkPaths) -> None:
        first = broker == cluster.brokers[0]
        settings = {
            **network_paths.keys,
            "zookeeper_root": self._root,
            "zookeeper_session_timeout_seconds": LONG_SESSION_S if first else SESSION_S,
            "report_interval_seconds": ROUND_S,
            "hold_seconds": HOLD_S,
            "record_dir": str(self.record_dir(broker.name)),
            "record_file_seconds": _RECORD_FILE_S,
        }
        self.sidecars.configure(broker.name, settings)
