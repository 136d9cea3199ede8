"""Programs of Pulsar that are clients of brokers: its proxy, WebSocket of its own, a functions worker.

Each is one process with a configuration of its own, started for a while beside a cluster. What it is to
lead to, a broker or a gate, is a setting.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local import configuration, jars, processes, readiness
from deploy.local.addresses import at, bracketed
from deploy.local.cluster import Cluster
from deploy.local.commands import METADATA_DRIVERS, QUICK, JavaRuntime
from deploy.local.configuration import CLUSTER_NAME
from deploy.local.ports import free_block
from deploy.local.state import Server
from tests.jars import proxy_jars

_READY_WITHIN_S = 60.0
_STOP_GRACE_S = 20.0

#: What the file that comes with Pulsar has, without which a worker does not start, but for the runtime.
_WORKER: Final[dict[str, object]] = {
    "numFunctionPackageReplicas": 1,
    "numHttpServerThreads": 8,
    "functionMetadataTopicName": "metadata",
    "clusterCoordinationTopicName": "coordinate",
    "functionAssignmentTopicName": "assignments",
    "functionRuntimeFactoryClassName": (
        "org.apache.pulsar.functions.runtime.thread.ThreadRuntimeFactory"
    ),
    "functionRuntimeFactoryConfigs": {"threadGroupName": "functions"},
    "schedulerClassName": "org.apache.pulsar.functions.worker.scheduler.RoundRobinScheduler",
    "failureCheckFreqMs": 30_000,
    "rescheduleTimeoutMs": 60_000,
    "rebalanceCheckFreqSec": -1,
    "workerListProbeIntervalSec": 60,
    "initialBrokerReconnectMaxRetries": 60,
    "assignmentWriteMaxRetries": 60,
    "instanceLivenessCheckFreqMs": 30_000,
    "topicCompactionFrequencySec": 1_800,
    "metadataStoreSessionTimeoutMillis": 30_000,
    "metadataStoreOperationTimeoutSeconds": 30,
    "metadataStoreCacheExpirySeconds": 300,
}


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
def proxy(cluster: Cluster, directory: Path, settings: Mapping[str, object]) -> Iterator[Proxy]:
    """Run Pulsar's proxy; `settings` are those of proxy.conf, and win over ours.

    Raises:
        LocalClusterError: it ended, or was not ready in time.
    """
    port, tls_port, web_port, *_ = free_block(cluster.state.host)
    own: dict[str, object] = {
        "clusterName": CLUSTER_NAME,
        "bindAddress": bracketed(cluster.state.host),
        "advertisedAddress": cluster.brokers[0].advertised,
        "servicePort": port,
        "webServicePort": web_port,
        "brokerWebServiceURL": cluster.brokers[0].web_url,
        "numHttpServerThreads": 8,
    }
    if "tlsCertificateFilePath" in settings:
        own["servicePortTls"] = tls_port
    library = proxy_jars(jars.cache_root(os.environ))
    conf = configuration.properties(own | dict(settings))
    server = _server("proxy", web_port, conf, cluster, directory, library, _proxy)
    with _running(server, directory):
        yield Proxy(port, tls_port, web_port, Path(server.log_file))


@contextmanager
def websocket(cluster: Cluster, directory: Path, settings: Mapping[str, object]) -> Iterator[int]:
    """Run the WebSocket service as a process of its own; yield its port.

    Args:
        cluster: its brokers' Pulsar is the service's, too.
        directory: for its configuration and its log.
        settings: those of websocket.conf; they win over ours.

    Raises:
        LocalClusterError: it ended, or was not ready in time.
    """
    port, *_ = free_block(cluster.state.host)
    own: dict[str, object] = {
        "clusterName": CLUSTER_NAME,
        "bindAddress": bracketed(cluster.state.host),
        "webServicePort": port,
        "serviceUrl": cluster.brokers[0].web_url,
        "configurationMetadataStoreUrl": f"zk:{cluster.state.zookeeper_connect}",
    }
    library = jars.server_jars(cluster.state.pulsar_version, jars.cache_root(os.environ))
    conf = configuration.properties(own | dict(settings))
    server = _server("websocket", port, conf, cluster, directory, library, _websocket)
    with _running(server, directory):
        yield port


@contextmanager
def functions_worker(
    cluster: Cluster, directory: Path, settings: Mapping[str, object]
) -> Iterator[str]:
    """Run a worker of Pulsar Functions as a process of its own; yield the URL of its admin REST.

    Functions run on threads of the worker, from any file that is named to it.

    Args:
        cluster: its brokers' Pulsar is the worker's, too.
        directory: for its configuration, its files and its log.
        settings: those of functions_worker.yml; they win over ours.

    Raises:
        LocalClusterError: it ended, or was not ready in time.
    """
    port, *_ = free_block(cluster.state.host)
    own: dict[str, object] = _WORKER | {
        "workerId": f"worker-{port}",
        "workerHostname": cluster.brokers[0].advertised,
        "workerPort": port,
        "pulsarFunctionsCluster": CLUSTER_NAME,
        "pulsarFunctionsNamespace": "public/functions",
        "pulsarServiceUrl": cluster.brokers[0].service_url,
        "pulsarWebServiceUrl": cluster.brokers[0].web_url,
        "configurationMetadataStoreUrl": f"zk:{cluster.state.zookeeper_connect}",
        "additionalEnabledFunctionsUrlPatterns": ["file:.*"],
        "downloadDirectory": str(directory / "download"),
    }
    library = jars.server_jars(cluster.state.pulsar_version, jars.cache_root(os.environ))
    # JSON is YAML, too.
    conf = json.dumps(own | dict(settings), indent=2)
    server = _server("functions", port, conf, cluster, directory, library, _functions)
    with _running(server, directory):
        yield f"http://{at(cluster.state.host, port)}"


def _proxy(runtime: JavaRuntime, conf: Path) -> tuple[str, ...]:
    """Return the command of Pulsar's proxy."""
    memory = ["-Xmx256m", "-XX:MaxDirectMemorySize=128m", QUICK]
    main = "org.apache.pulsar.proxy.server.ProxyServiceStarter"
    return runtime.command(memory, main, ["--config", str(conf)])


def _websocket(runtime: JavaRuntime, conf: Path) -> tuple[str, ...]:
    """Return the command of the WebSocket service as a process of its own."""
    main = "org.apache.pulsar.websocket.service.WebSocketServiceStarter"
    return runtime.command(["-Xmx256m", QUICK], main, [str(conf)])


def _functions(runtime: JavaRuntime, conf: Path) -> tuple[str, ...]:
    """Return the command of a worker of Pulsar Functions as a process of its own."""
    main = "org.apache.pulsar.functions.worker.FunctionWorkerStarter"
    memory = ["-Xmx256m", "-XX:MaxDirectMemorySize=128m", QUICK, *METADATA_DRIVERS]
    return runtime.command(memory, main, ["--conf", str(conf)])


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
    logging.write_text(configuration.logging())
    runtime = JavaRuntime(Path(cluster.state.java), library, logging)
    return Server(
        name=name,
        host=cluster.state.host,
        port=port,
        log_file=str(directory / f"{name}-{port}.log"),
        command=command(runtime, file),
    )


@contextmanager
def _running(server: Server, directory: Path) -> Iterator[None]:
    process = processes.start(server.command, Path(server.log_file), directory)
    try:
        readiness.wait_until_ready([server.run_as(process)], _READY_WITHIN_S)
        yield
    finally:
        processes.stop_all([process], _STOP_GRACE_S)
