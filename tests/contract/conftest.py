"""The contract suites run against a real ZooKeeper and a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.ports import GroupStore
from deploy.local.cluster import Cluster
from deploy.local.state import Broker
from tests.contract.own_zookeeper import OwnZooKeeper
from tests.contract.sessions import new_root, patient, running
from tests.contract.stores import OpenStore
from tests.memory.store import MemoryStore


@pytest.fixture(scope="session")
def zookeeper_hosts(cluster: Cluster) -> str:
    """The connect string of the cluster's ZooKeeper."""
    return cluster.state.zookeeper_connect


@pytest.fixture(scope="session")
def pulsar_broker(cluster: Cluster) -> Broker:
    """A running broker."""
    return cluster.brokers[0]


@pytest.fixture(scope="module")
def _abused_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnZooKeeper]:
    """A ZooKeeper of the module's own, not started."""
    server = OwnZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def own_zookeeper(_abused_zookeeper: OwnZooKeeper) -> OwnZooKeeper:
    """A running, empty ZooKeeper that the test may ill-treat."""
    _abused_zookeeper.begin_anew()
    return _abused_zookeeper


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.cluster)])
async def open_store(request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    """A function that opens the same, at first empty, store as one more sidecar."""
    if request.param == "memory":
        shared = MemoryStore()

        async def share() -> GroupStore:
            return shared

        yield share
        return
    hosts, root = request.getfixturevalue("zookeeper_hosts"), new_root()
    async with AsyncExitStack() as opened:

        async def connect() -> GroupStore:
            session = patient(hosts, root)
            store = ZooKeeperStore(session)
            await opened.enter_async_context(running(session, store))
            return store

        yield connect


@pytest.fixture
async def store(open_store: OpenStore) -> GroupStore:
    """One sidecar's store."""
    return await open_store()
