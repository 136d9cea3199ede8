"""The contents of the configuration files, and why they differ from Pulsar's defaults.

Pure text: settings in, file contents out. Three aims run through all of it: a broker that is killed
must be missed within seconds, everything must fit a machine of two cores, and nothing may be
promised to a disk that is thrown away with the cluster.

Every broker has two listeners. Clients connect through a sidecar, which listens on the broker's
*external* advertised address and passes bytes on to the loopback port that the external listener is
bound to. A lookup that arrives there is answered with the external address of the topic's owner,
which is the owner's sidecar, so nothing needs rewriting. A client that bypasses the sidecars uses the
broker's own port, the *internal* listener.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.addresses import LOOPBACK, at, bracketed

CLUSTER_NAME = "local"

TLS_SUFFIX = "+ssl"
"""Ends the name of a further listener that is the address with TLS of the listener before it."""

#: How long ZooKeeper waits for a silent broker or bookie before its topics go elsewhere.
_SESSION_TIMEOUT_MS = 5000

_PULSAR_RESOURCE_GROUP_TRANSPORT = (
    "org.apache.pulsar.broker.resourcegroup.ResourceUsageTopicTransportManager"
)


@dataclass(frozen=True, slots=True)
class ZooKeeperPeer:
    """One server of the ensemble: its number from 1 up, its three ports, and the address they are on."""

    number: int
    client_port: int
    peer_port: int
    election_port: int
    host: str = field(default=LOOPBACK, kw_only=True)


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """The ports of one broker and of the sidecar beside it, all on one loopback address.

    Attributes:
        broker_port: Pulsar protocol, internal listener.
        web_port: the broker's admin REST.
        gate_port: where the sidecar listens, the external advertised address.
        gate_upstream_port: where the sidecar connects to, the external listener's bind address.
        admin_port: kept free for the sidecar's own admin API.
        listener_ports: of further advertised listeners, by name; for a proxy before the broker.
        host: the address, without brackets.
        name: what it is called in service URLs and as the broker's own.
    """

    broker_port: int
    web_port: int
    gate_port: int
    gate_upstream_port: int
    admin_port: int
    listener_ports: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    host: str = field(default=LOOPBACK, kw_only=True)
    name: str = field(default=LOOPBACK, kw_only=True)


def properties(settings: Mapping[str, object]) -> str:
    """Return settings as lines of key=value, booleans in Java's spelling."""
    lines = []
    for key, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        lines.append(f"{key}={text}\n")
    return "".join(lines)


def zookeeper(own: ZooKeeperPeer, peers: Sequence[ZooKeeperPeer], data: Path) -> str:
    """Return zoo.cfg for one server of an ensemble of one or more."""
    settings: dict[str, object] = {
        # Sessions end on a tick, so a short one makes their end punctual.
        "tickTime": 500,
        "minSessionTimeout": 1000,
        "maxSessionTimeout": 40000,
        "dataDir": data,
        "clientPort": own.client_port,
        "clientPortAddress": own.host,
        "maxClientCnxns": 0,
        "admin.enableServer": False,
        "4lw.commands.whitelist": "*",
        "forceSync": "no",
        "snapCount": 20000,
        "preAllocSize": 1024,
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
    }
    if len(peers) > 1:
        settings |= {"initLimit": 20, "syncLimit": 10}
        settings |= {f"server.{p.number}": _quorum_address(p) for p in peers}
    return properties(settings)


def _quorum_address(peer: ZooKeeperPeer) -> str:
    return f"{at(peer.host, peer.peer_port)}:{peer.election_port}"


def bookie(zookeeper_connect: str, port: int, data: Path, host: str = LOOPBACK) -> str:
    """Return the bookie's configuration; it is known by this host, and listens at every address.

    To listen at one it must be told of a network interface, and then takes the name of any address of
    that: 5.0.0-M1 ends at `::1%lo`.
    """
    return properties(
        {
            "metadataServiceUri": f"metadata-store:zk:{zookeeper_connect}",
            "zkTimeout": _SESSION_TIMEOUT_MS,
            "bookiePort": port,
            "advertisedAddress": host,
            "allowLoopback": True,
            "journalDirectory": data / "journal",
            "ledgerDirectories": data / "ledgers",
            "journalSyncData": False,
            "journalMaxSizeMB": 128,
            "journalPreAllocSizeMB": 4,
            "journalMaxBackups": 0,
            "nettyMaxFrameSizeBytes": 5253120,
            "httpServerEnabled": False,
            "ledgerStorageClass": "org.apache.bookkeeper.bookie.SortedLedgerStorage",
            "skipListSizeLimit": 33554432,
            "diskUsageThreshold": 0.99,
            "diskUsageWarnThreshold": 0.98,
            "serverNumIOThreads": 1,
            "numAddWorkerThreads": 1,
            "numReadWorkerThreads": 1,
            "numJournalCallbackThreads": 1,
            "numHighPriorityWorkerThreads": 1,
        }
    )


def broker(
    zookeeper_connect: str,
    ports: BrokerPorts,
    resource_group_interval_s: int | None,
    overrides: Mapping[str, str],
) -> str:
    """Return broker.conf.

    Args:
        zookeeper_connect: host:port, separated by commas.
        ports: of this broker.
        resource_group_interval_s: seconds between the reports of Pulsar's own resource groups, the
            peer we compare with; None leaves them without a transport, as Pulsar does by default.
        overrides: settings that win over all of these.
    """
    settings = _broker_identity(zookeeper_connect, ports) | _broker_sizing()
    if resource_group_interval_s is not None:
        settings["resourceUsageTransportClassName"] = _PULSAR_RESOURCE_GROUP_TRANSPORT
        settings["resourceUsageTransportPublishIntervalInSecs"] = resource_group_interval_s
    return properties({**settings, **overrides})


def _broker_identity(zookeeper_connect: str, ports: BrokerPorts) -> dict[str, object]:
    internal = f"internal:pulsar://{ports.name}:{ports.broker_port}"
    external = f"external:pulsar://{ports.name}:{ports.gate_port}"
    further = [_advertised(name, ports.name, port) for name, port in ports.listener_ports.items()]
    return {
        "clusterName": CLUSTER_NAME,
        "metadataStoreUrl": f"zk:{zookeeper_connect}",
        "configurationMetadataStoreUrl": f"zk:{zookeeper_connect}",
        "metadataStoreSessionTimeoutMillis": _SESSION_TIMEOUT_MS,
        "bindAddress": bracketed(ports.host),
        "brokerServicePort": ports.broker_port,
        "webServicePort": ports.web_port,
        "advertisedAddress": ports.name,
        "advertisedListeners": ",".join([internal, external, *further]),
        "bindAddresses": f"external:pulsar://{at(ports.host, ports.gate_upstream_port)}",
        "internalListenerName": "internal",
    }


def _advertised(name: str, host: str, port: int) -> str:
    scheme = "pulsar+ssl" if name.endswith(TLS_SUFFIX) else "pulsar"
    return f"{name.removesuffix(TLS_SUFFIX)}:{scheme}://{host}:{port}"


def _broker_sizing() -> dict[str, object]:
    return {
        "managedLedgerDefaultEnsembleSize": 1,
        "managedLedgerDefaultWriteQuorum": 1,
        "managedLedgerDefaultAckQuorum": 1,
        "managedLedgerCacheSizeMB": 32,
        "functionsWorkerEnabled": False,
        "webSocketServiceEnabled": False,
        "transactionCoordinatorEnabled": False,
        # Topics stay where a test has put them, and stay at all when no client uses them.
        "loadBalancerSheddingEnabled": False,
        "loadBalancerAutoBundleSplitEnabled": False,
        "defaultNumberOfNamespaceBundles": 12,
        "allowAutoTopicCreationType": "non-partitioned",
        "brokerDeleteInactiveTopicsEnabled": False,
        # Rates are averaged over this time. The counters that are summed up do not wait for it.
        "statsUpdateFrequencyInSecs": 5,
        "statsUpdateInitialDelayInSecs": 5,
        "brokerShutdownTimeoutMs": 10000,
        # Two cores gain nothing from Pulsar's defaults of 8 to 20 threads a pool.
        "numIOThreads": 2,
        "numOrderedExecutorThreads": 2,
        "numHttpServerThreads": 8,
        "numExecutorThreadPoolSize": 2,
        "numCacheExecutorThreadPoolSize": 2,
        "topicOrderedExecutorThreadNum": 2,
        "managedLedgerNumSchedulerThreads": 2,
        "bookkeeperClientNumWorkerThreads": 2,
        "bookkeeperClientNumIoThreads": 2,
        "bookkeeperNumberOfChannelsPerBookie": 2,
    }


def tools(web_url: str, broker_url: str) -> str:
    """Return the client.conf that pulsar-admin and pulsar-perf read."""
    return properties({"webServiceUrl": web_url, "brokerServiceUrl": broker_url})


def logging(level: str = "info") -> str:
    """Return a log4j2 configuration that writes to standard output from this level up."""
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN">
  <Appenders>
    <Console name="out" target="SYSTEM_OUT">
      <PatternLayout pattern="%d{{ISO8601}} [%t] %-5level %c{{1.}} - %msg%n%throwable"/>
    </Console>
  </Appenders>
  <Loggers>
    <!-- A line for every REST call would grow the log for as long as a client polls. -->
    <Logger name="org.eclipse.jetty.server.RequestLog" level="warn"/>
    <Logger name="org.apache.zookeeper" level="warn"/>
    <Root level="{level}"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""
