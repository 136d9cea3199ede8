"""A cluster that coordinates transactions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local import jars
from deploy.local.cluster import Cluster
from deploy.local.commands import JavaRuntime
from deploy.local.configuration import CLUSTER_NAME
from deploy.local.layout import ClusterOptions
from tests.pulsar_version import pulsar_version


@contextmanager
def coordinating(directory: Path) -> Iterator[Cluster]:
    """A running cluster of one broker, with one transaction coordinator."""
    options = ClusterOptions(
        state_dir=directory,
        brokers=1,
        pulsar=pulsar_version(),
        broker_settings={"transactionCoordinatorEnabled": "true"},
        quick=True,
    )
    with Cluster.start(options) as cluster:
        _set_up_coordinators(cluster)
        yield cluster


def _set_up_coordinators(cluster: Cluster) -> None:
    """Pulsar's own ``initialize-transaction-coordinator-metadata``."""
    library = jars.server_jars(cluster.state.pulsar_version, jars.cache_root(os.environ))
    logging = cluster.state_dir / "conf" / "log4j2.xml"
    store = ("--configuration-store", f"zk:{cluster.state.zookeeper_connect}")
    count = ("--initial-num-transaction-coordinators", "1")
    command = JavaRuntime(Path(cluster.state.java), library, logging).command(
        ["-Xmx128m"],
        "org.apache.pulsar.PulsarTransactionCoordinatorMetadataSetup",
        ["--cluster", CLUSTER_NAME, *store, *count],
    )
    subprocess.run(command, check=True, capture_output=True, timeout=120)
