"""The contract suites run against a real ZooKeeper and a real broker."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.ports import GroupStore
from deploy.local.cluster import Cluster
from deploy.local.state import Broker
from tests.contract.own_zookeeper import OwnZooKeeper
from tests.contract.sessions import patient
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
    hosts = request.getfixturevalue("zookeeper_hosts")
    root = f"/contract-{uuid.uuid4().hex}"
    opened: list[tuple[ZooKeeperSession, ZooKeeperStore]] = []

    async def connect() -> GroupStore:
        session = patient(hosts, root)
        store = ZooKeeperStore(session)
        opened.append((session, store))
        await session.start()
        await store.start()
        return store

    yield connect
    for session, store in opened:
        await store.stop()
        await session.stop()


@pytest.fixture
async def store(open_store: OpenStore) -> GroupStore:
    """One sidecar's store."""
    return await open_store()
