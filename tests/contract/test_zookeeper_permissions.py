"""Only sidecars with the same credentials can use a sidecar's data in ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from coordinator.adapters.zookeeper.access import ZooKeeperAccess
from coordinator.adapters.zookeeper.membership import ZooKeeperMembership
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import namespace_owner
from coordinator.ports import PortError
from tests.contract.own_zookeeper import OwnZooKeeper
from tests.contract.sessions import patient, running

pytestmark = pytest.mark.cluster

OURS = "quota:a password with : and spaces"
ORDERS = ResourceGroup("orders", Rates(publish_messages=3_000))


@asynccontextmanager
async def store_of(
    hosts: str, credentials: str, *, sasl: bool = False
) -> AsyncIterator[ZooKeeperStore]:
    """The store as a sidecar with these credentials opens it, which is a member, too."""
    session = patient(hosts, access=ZooKeeperAccess(credentials, sasl))
    store, membership = ZooKeeperStore(session), ZooKeeperMembership(session, version="1")
    async with running(session, store, membership):
        yield store


def everything(client: KazooClient, path: str) -> list[str]:
    """A node and all below it."""
    children = client.get_children(path)
    return [path, *(each for name in children for each in everything(client, f"{path}/{name}"))]


def refusals(hosts: str) -> list[str]:
    """Try, without credentials, to read, change and delete all nodes; what was refused."""
    owner, stranger = KazooClient(hosts, auth_data=[("digest", OURS)]), KazooClient(hosts)
    refused = []
    for client in (owner, stranger):
        client.start()
    try:
        for path in everything(owner, "/pulsar-quota"):
            for attempt in (
                partial(stranger.get, path),
                partial(stranger.set, path, b"mine"),
                partial(stranger.create, f"{path}/mine"),
                partial(stranger.delete, f"{path}/mine"),
                partial(stranger.set_acls, path, OPEN_ACL_UNSAFE),
            ):
                with pytest.raises(NoAuthError):
                    attempt()
            refused.append(path)
    finally:
        for client in (owner, stranger):
            client.stop()
            client.close()
    return refused


async def is_refused(stranger: ZooKeeperSession) -> None:
    """Open this session, check that it cannot delete the group, and close it."""
    await stranger.start()
    try:
        with pytest.raises(PortError, match=r"NoAuth.* correct zookeeper_credentials_file"):
            await ZooKeeperStore(stranger).delete_group("orders")
    finally:
        await stranger.stop()


async def why_not(session: ZooKeeperSession) -> str:
    """Return the reason that a request is refused with."""
    with pytest.raises(PortError) as refused:
        await session.call(lambda client: client.create_async("/anything"))
    return str(refused.value)


async def test_only_sidecars_read_change_or_delete_their_entries(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """Groups and members are protected at every level; sidecars with the same credentials get in."""
    async with store_of(own_zookeeper.hosts, OURS) as store:
        await store.create_group(ORDERS)
        await store.attach(namespace_owner("shop", "orders"), "orders")
        refused = await asyncio.to_thread(refusals, own_zookeeper.hosts)
        assert "/pulsar-quota/groups/orders" in refused

        async with store_of(own_zookeeper.hosts, OURS) as other:
            found = await other.read_group("orders")
            await other.update_group(
                ResourceGroup("orders", Rates(publish_messages=6_000)), found.version
            )
        assert (await store.read_group("orders")).group.limits.publish_messages == 6_000


@pytest.fixture
def sasl_zookeeper(tmp_path: Path) -> Iterator[OwnZooKeeper]:
    """A ZooKeeper with a JAAS login that knows quota's password."""
    (tmp_path / "jaas.conf").write_text(
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        '  user_quota="secret";\n};\n'
    )
    server = OwnZooKeeper(
        tmp_path,
        f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}",
        "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()


async def test_credentials_are_shown_by_sasl_where_that_is_wanted(
    sasl_zookeeper: OwnZooKeeper,
) -> None:
    """Nodes are for that login alone; its password by the digest scheme is another identity."""
    hosts = sasl_zookeeper.hosts
    async with store_of(hosts, "quota:secret", sasl=True) as store:
        await store.create_group(ORDERS)
        async with store_of(hosts, "quota:secret", sasl=True) as other:
            assert (await other.read_group("orders")).group.limits == ORDERS.limits
        await is_refused(patient(hosts, access=ZooKeeperAccess("quota:secret")))


async def test_a_password_that_sasl_refuses_is_named(sasl_zookeeper: OwnZooKeeper) -> None:
    """With the key that is to be corrected; nothing is read or written."""
    access = ZooKeeperAccess("quota:another password", sasl=True)
    session = ZooKeeperSession(sasl_zookeeper.hosts, access=access)
    await session.start()
    try:
        async with asyncio.timeout(60):
            while "SASL" not in (fault := await why_not(session)):
                await asyncio.sleep(0.1)
    finally:
        await session.stop()
    assert "correct zookeeper_credentials_file" in fault


@pytest.mark.parametrize("credentials", ["", "quota:another password"])
async def test_a_sidecar_without_the_credentials_is_told_so(
    own_zookeeper: OwnZooKeeper, credentials: str
) -> None:
    """ZooKeeper's answer is an error of the port, and changes nothing."""
    async with store_of(own_zookeeper.hosts, OURS) as store:
        await store.create_group(ORDERS)
        await is_refused(patient(own_zookeeper.hosts, access=ZooKeeperAccess(credentials)))
        assert (await store.read_group("orders")).group.limits == ORDERS.limits
