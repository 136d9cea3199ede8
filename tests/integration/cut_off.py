"""Sidecars that can be cut off from ZooKeeper and from the bus, each by itself.

Between every sidecar and either of them stands a link (deploy.chaos.links). Their times are as short as
they can be told apart on a machine that may stand still for three seconds. What they say to each other is
sealed, and what they do is recorded.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from deploy.chaos import LISTENERS
from deploy.chaos.links import Condition, Link, Links
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars, configuration, write_configuration
from deploy.local.state import Broker

STALLED = Condition(stalled_out=True, stalled_back=True)
SEVERED = Condition(severed=True)

#: Of the first broker's sidecar, which tests cut off from ZooKeeper: a lease ends a third of it later at
#: the earliest, and until then the sidecar only holds its limits.
LONG_SESSION_S = 18.0
SESSION_S = 4.0
ROUND_S = 0.5
#: Sidecars notice a silence up to three seconds one after the other: a silent round needs no report.
HOLD_S = 8.0
_RECORD_FILE_S = 1.0
_ALARM_AFTER_S = 1.0


class CutOff:
    """Sidecars beside all brokers, and the links that lead to them.

    Args:
        cluster: running, with `LISTENERS`; no sidecars beside it.
        directory: for configurations, records and logs.
        links: entered.
    """

    def __init__(self, cluster: Cluster, directory: Path, links: Links) -> None:
        self.links = links
        self.directory = directory
        self.key_file = directory / "bus.key"
        self.key_file.write_text("what only the sidecars know")
        self.sidecars = Sidecars(cluster, directory)
        #: By sidecar: to every ZooKeeper, and to every broker's bus.
        self.to_zookeeper: dict[str, tuple[Link, ...]] = {}
        self.to_bus: dict[str, tuple[Link, ...]] = {}
        self._root = f"/{uuid.uuid4().hex}"
        for broker, listener in zip(cluster.brokers, LISTENERS, strict=True):
            self._configure(cluster, broker, listener)

    def record_dir(self, name: str) -> Path:
        """Where a broker's sidecar records."""
        return self.directory / "recorded" / name

    def _configure(self, cluster: Cluster, broker: Broker, listener: str) -> None:
        first = broker == cluster.brokers[0]
        self.to_zookeeper[broker.name] = tuple(
            self.links.open(server.port) for server in cluster.state.zookeepers
        )
        self.to_bus[broker.name] = tuple(
            self.links.open(other.broker_port, other.listener_ports[listener])
            for other in cluster.brokers
        )
        bus = ",".join(f"127.0.0.1:{link.port}" for link in self.to_bus[broker.name])
        zookeepers = ",".join(f"127.0.0.1:{link.port}" for link in self.to_zookeeper[broker.name])
        keys = configuration(broker, cluster, self.sidecars.bus_topics) | {
            "bus_service_url": f"pulsar://{bus}",
            "bus_listener_name": listener,
            "bus_key_files": [str(self.key_file)],
            "zookeeper_servers": zookeepers,
            "zookeeper_root": self._root,
            "zookeeper_session_timeout_seconds": LONG_SESSION_S if first else SESSION_S,
            "report_interval_seconds": ROUND_S,
            "hold_seconds": HOLD_S,
            "record_dir": str(self.record_dir(broker.name)),
            "record_file_seconds": _RECORD_FILE_S,
            "alarm_after_seconds": _ALARM_AFTER_S,
        }
        write_configuration(self.sidecars.configuration_file(broker.name), keys)
