"""The brokers' registrations in ZooKeeper: which of their changes the sidecar follows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import PurePosixPath

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from coordinator.adapters.zookeeper.registrations import DEFAULT_PATH, ZooKeeperRegistrations
from coordinator.core.addresses import BrokerRegistration
from tests.contract.listening import Heard
from tests.contract.own_zookeeper import OwnZooKeeper
from tests.contract.sessions import an_operator, patient, running

pytestmark = pytest.mark.cluster

Registered = tuple[BrokerRegistration, ...]


def document(port: int, **load: object) -> bytes:
    """Return a broker's registration."""
    return json.dumps({"pulsarServiceUrl": f"pulsar://a:{port}", **load}).encode()


def internal(found: Registered) -> dict[str, str]:
    """Brokers and their internal addresses."""
    return {each.broker: each.internal.plain for each in found}


@pytest.fixture
async def broker(own_zookeeper: OwnZooKeeper) -> AsyncIterator[KazooClient]:
    """A broker's client of ZooKeeper."""
    async with an_operator(own_zookeeper.hosts) as client:
        yield client


@pytest.fixture
async def heard(
    own_zookeeper: OwnZooKeeper, broker: KazooClient
) -> AsyncIterator[Heard[Registered]]:
    """Return the news of a sidecar that was started before any broker."""
    session, heard = patient(own_zookeeper.hosts), Heard[Registered]()
    registrations = ZooKeeperRegistrations(session)
    registrations.watch(heard)
    async with running(session, registrations):
        yield heard


async def test_brokers_that_were_never_there_are_told_and_nothing_is_created(
    heard: Heard[Registered], broker: KazooClient
) -> None:
    """A node of ours, with our permissions, could keep Pulsar's brokers from starting."""
    assert await heard.until(lambda found: found is not None) == ()
    assert broker.exists("/loadbalance") is None


async def test_brokers_are_followed_as_they_come_and_go(
    heard: Heard[Registered], broker: KazooClient
) -> None:
    """The first one creates the directory."""
    await heard.until(lambda found: found == ())
    create = partial(broker.create, makepath=True)
    create(f"{DEFAULT_PATH}/a:8080", document(1))
    await heard.until(lambda found: internal(found) == {"a:8080": "pulsar://a:1"})
    create(f"{DEFAULT_PATH}/b:8080", document(2))
    await heard.until(lambda found: len(found) == 2)
    broker.delete(f"{DEFAULT_PATH}/a:8080")
    await heard.until(lambda found: internal(found) == {"b:8080": "pulsar://a:2"})


async def test_a_broker_that_registers_anew_is_read_anew_and_its_load_is_not(
    heard: Heard[Registered], broker: KazooClient
) -> None:
    """Brokers rewrite their registration every few seconds, for its load alone."""
    path = f"{DEFAULT_PATH}/a:8080"
    broker.create(path, document(1), makepath=True)
    await heard.until(lambda found: len(found) == 1)
    times = len(heard.values)

    broker.set(path, document(1, msgRateIn=7.0))
    anew = broker.transaction()
    anew.delete(path)
    anew.create(path, document(2))
    anew.commit()

    await heard.until(lambda found: internal(found) == {"a:8080": "pulsar://a:2"})
    assert len(heard.values) == times + 1


async def test_a_registration_that_makes_no_sense_is_a_fault_of_that_broker_alone(
    heard: Heard[Registered], broker: KazooClient
) -> None:
    """The others are known."""
    broker.create(f"{DEFAULT_PATH}/a:8080", b"?", makepath=True)
    broker.create(f"{DEFAULT_PATH}/b:8080", document(2))

    await heard.until(lambda found: internal(found) == {"b:8080": "pulsar://a:2"})


async def test_a_directory_that_must_not_be_read_counts_as_missing(
    own_zookeeper: OwnZooKeeper, broker: KazooClient
) -> None:
    """The gate opens all the same, without a map."""
    broker.create(PurePosixPath(DEFAULT_PATH).parent.as_posix())
    broker.create(DEFAULT_PATH, acl=[make_digest_acl("pulsar", "secret", all=True)])
    session, heard = patient(own_zookeeper.hosts), Heard[Registered]()
    registrations = ZooKeeperRegistrations(session)
    registrations.watch(heard)
    async with running(session, registrations):
        assert await heard.until(lambda found: found is not None) == ()
