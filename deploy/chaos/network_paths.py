"""The network paths of a sidecar to ZooKeeper and the bus, over links that the bench controls.

A path to a ZooKeeper is an address in the sidecar's configuration. The brokers of the bus say themselves
where they are, so they do that for each sidecar under a listener of its own (`LISTENERS`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deploy.chaos import LISTENERS
from deploy.chaos.links import Link, Links
from deploy.local.cluster import Cluster


@dataclass(frozen=True, slots=True)
class NetworkPaths:
    """The links of one sidecar.

    Attributes:
        listener: under which brokers advertise the links to them.
        to_zookeeper: to every ZooKeeper.
        to_bus: to every broker, for the bus.
    """

    listener: str
    to_zookeeper: tuple[Link, ...]
    to_bus: tuple[Link, ...]

    @property
    def keys(self) -> dict[str, object]:
        """Their keys in the sidecar's configuration."""
        return {
            "zookeeper_servers": _addresses(self.to_zookeeper),
            "bus_service_url": f"pulsar://{_addresses(self.to_bus)}",
            "bus_listener_name": self.listener,
        }


def open_network_paths(links: Links, cluster: Cluster) -> dict[str, NetworkPaths]:
    """Open the paths of every sidecar, by the name of its broker, in a cluster with `LISTENERS`."""
    return {
        broker.name: NetworkPaths(
            listener,
            tuple(links.open(server.port) for server in cluster.state.zookeepers),
            tuple(
                links.open(other.broker_port, other.listener_ports[listener])
                for other in cluster.brokers
            ),
        )
        for broker, listener in zip(cluster.brokers, LISTENERS, strict=True)
    }


def _addresses(links: Iterable[Link]) -> str:
    return ",".join(f"127.0.0.1:{link.port}" for link in links)
