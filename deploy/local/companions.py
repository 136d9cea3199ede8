"""The programs of Pulsar that stand between clients and brokers: its proxy, and WebSocket of its own.

Each is one process with a configuration of its own, started for a while beside a cluster. What it is to
lead to, a broker or a gate, is a setting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local import commands, configuration, jars, processes, readiness
from deploy.local.cluster import Cluster
from deploy.local.commands import JavaRuntime
from deploy.local.configuration import CLUSTER_NAME, HOST
from deploy.local.ports import free_block
from deploy.local.state import Server

_PORTS = 4
_STOP_GRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy of Pulsar.

    Args:
        port: Pulsar protocol.
        tls_port: the same with TLS, if the settings name a certificate.
        web_port: admin REST and WebSocket.
        log_file: its output.
    """

    port: int
    tls_port: int
    web_port: int
    log_file: Path


@contextmanager
def proxy(
    cluster: Cluster, directory: Path, settings: Mapping[str, object], timeout_s: float = 60.0
) -> Iterator[Proxy]:
    """Run Pulsar's proxy; `settings` are those of proxy.conf, and win over ours.

    Raises:
        LocalClusterError: it ended, or was not ready in time.
    """
    port, tls_port, web_port, *_ = free_block(_PORTS)
    own: dict[str, object] = {
        "clusterName": CLUSTER_NAME,
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        "servicePort": port,
        "webServicePort": web_port,
        "brokerWebServiceURL": cluster.brokers[0].web_url,
        "numHttpServerThreads": 8,
    }
    if "tlsCertificateFilePath" in settings:
        own["servicePortTls"] = tls_port
    library = jars.proxy_jars(jars.cache_root(os.environ))
    conf = configuration.properties(own | dict(settings))
    server = _server("proxy", web_port, conf, cluster, directory, library, commands.proxy)
    with _running(server, directory, timeout_s):
        yield Proxy(port, tls_port, web_port, Path(server.log_file))


@contextmanager
def websocket(
    cluster: Cluster, directory: Path, settings: Mapping[str, object], timeout_s: float = 60.0
) -> Iterator[int]:
    """Run the WebSocket service as a process of its own; yield its port.

    Args:
        cluster: its brokers' Pulsar is the service's, too.
        directory: for its configuration and its log.
        settings: those of websocket.conf; they win over ours.
        timeout_s: for its start.

    Raises:
        LocalClusterError: it ended, or was not ready in time.
    """
    port, *_ = free_block(_PORTS)
    own: dict[str, object] = {
        "clusterName": CLUSTER_NAME,
        "bindAddress": HOST,
        "webServicePort": port,
        "serviceUrl": cluster.brokers[0].web_url,
        "configurationMetadataStoreUrl": f"zk:{cluster.state.zookeeper_connect}",
    }
    library = jars.server_jars(cluster.state.pulsar_version, jars.cache_root(os.environ))
    conf = configuration.properties(own | dict(settings))
    server = _server("websocket", port, conf, cluster, directory, library, commands.websocket)
    with _running(server, directory, timeout_s):
        yield port


def _server(
    name: str,
    port: int,
    conf: str,
    cluster: Cluster,
    directory: Path,
    library: Path,
    command: Callable[[JavaRuntime, Path], tuple[str, ...]],
) -> Server:
    file = directory / f"{name}-{port}.conf"
    file.write_text(conf)
    logging = directory / "log4j2.xml"
    logging.write_text(configuration.logging("info"))
    runtime = JavaRuntime(Path(cluster.state.java), library, logging)
    return Server(
        name=name,
        port=port,
        log_file=str(directory / f"{name}-{port}.log"),
        command=command(runtime, file),
    )


@contextmanager
def _running(server: Server, directory: Path, timeout_s: float) -> Iterator[None]:
    process = processes.start(server.command, Path(server.log_file), directory)
    try:
        readiness.wait_until_ready([server.run_as(process)], timeout_s)
        yield
    finally:
        processes.stop_all([process], _STOP_GRACE_S)
