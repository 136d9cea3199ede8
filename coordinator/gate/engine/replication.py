"""Geo-replication: the producers that count against no group of their topics.

A remote cluster's replicator publishes messages that a group there has already paid for. Its producers
have names that begin with the broker's ``replicatorPrefix``, but a client can choose any name. So a name
exempts a producer only if the operator has listed the client: by its address, or by the role that its
certificate has shown to this gate. By default no client is listed and nothing is exempt.

The name also says which cluster replicates: ``pulsar.repl.west-->east`` publishes in east what came from
west. A group that is attached to ``west`` limits such producers, and no other group does. Which of the
listed peers calls itself west is their word.

The own broker's replicator reads for replication *to* another cluster and passes no gate; so no consumer
is exempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final

from coordinator.gate.protocol.connect_policy import Client

_TO: Final = "-->"
"""Stands between the clusters in names of geo-replication's producers."""

REPLICATOR_PREFIX: Final = "pulsar.repl"
"""The broker's ``replicatorPrefix``: names of geo-replication's producers."""


@dataclass(frozen=True, slots=True)
class ReplicationPeers:
    """The clients that may replicate into this cluster without a limit.

    Args:
        networks: addresses of remote brokers.
        roles: common names of their certificates.
        prefix: the beginning of their producers' names.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    roles: frozenset[str] = field(default_factory=frozenset)
    prefix: str = REPLICATOR_PREFIX

    def exempt(self, client: Client, producer_name: str) -> bool:
        """Return whether a producer of this client belongs to geo-replication."""
        if not producer_name.startswith(self.prefix):
            return False
        return self._names_role(client) or self._names_address(client)

    def cluster_of(self, producer_name: str) -> str:
        """Return the remote cluster that a producer of geo-replication names."""
        return producer_name.removeprefix(self.prefix).removeprefix(".").partition(_TO)[0]

    def _names_role(self, client: Client) -> bool:
        return bool(client.principal) and client.principal in self.roles

    def _names_address(self, client: Client) -> bool:
        if not self.networks or not client.host:
            return False
        address = ip_address(client.host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.networks)
