"""What the contract suites run against: a real ZooKeeper and a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.state import Broker
from tests.contract.own_zookeeper import OwnZooKeeper


@pytest.fixture(scope="session")
def zookeeper_hosts(cluster: Cluster) -> str:
    """The connect string of the cluster's ZooKeeper."""
    return cluster.state.zookeeper_connect


@pytest.fixture(scope="session")
def pulsar_broker(cluster: Cluster) -> Broker:
    """A running broker."""
    return cluster.brokers[0]


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[OwnZooKeeper]:
    """A running ZooKeeper that the test may ill-treat."""
    server = OwnZooKeeper(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.kill()
