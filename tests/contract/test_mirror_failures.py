"""A mirror of ZooKeeper goes on whatever fails: later changes arrive."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.core.model import Rates, ResourceGroup
from coordinator.ports import Catalogue
from tests.contract.listening import Heard
from tests.contract.own_zookeeper import OwnZooKeeper
from tests.contract.sessions import patient, running

pytestmark = pytest.mark.cluster

ORDERS = ResourceGroup("orders", Rates(publish_messages=3000))


@pytest.fixture
async def session(own_zookeeper: OwnZooKeeper) -> Any:
    """A session of a ZooKeeper of its own."""
    session = patient(own_zookeeper.hosts, "/mirror")
    async with running(session):
        yield session


async def test_a_listener_that_fails_keeps_no_later_change_and_no_other_listener_waiting(
    session: ZooKeeperSession,
) -> None:
    """The first one fails at every change; that is counted."""
    store, heard = ZooKeeperStore(session), Heard[Catalogue]()

    def failing(_: Catalogue) -> None:
        raise ValueError("planted")

    store.watch(failing)
    store.watch(heard)
    async with running(store):
        for name in ("one", "two"):
            await store.create_group(ResourceGroup(name, ORDERS.limits))
            await heard.until(lambda catalogue: name in catalogue.groups)  # noqa: B023
    assert session.supervisor.failures["catalogue"].count >= 2


async def test_a_mirror_that_fails_reads_everything_again(
    session: ZooKeeperSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reader loses the change that was under way when it failed."""
    store, heard = ZooKeeperStore(session), Heard[Catalogue]()
    store.watch(heard)
    async with running(store):
        await store.create_group(ORDERS)
        await heard.until(lambda catalogue: "orders" in catalogue.groups)
        failures = iter([RuntimeError("planted"), TypeError("planted")])
        real = store._mirror._read_leaf

        async def failing(path: str) -> None:
            for failure in failures:
                raise failure
            await real(path)

        monkeypatch.setattr(store._mirror, "_read_leaf", failing)
        await store.create_group(ResourceGroup("later", ORDERS.limits))
        await heard.until(lambda catalogue: "later" in catalogue.groups)
    (failed,) = session.supervisor.failures.values()
    assert (failed.count, failed.runs) == (2, True)
