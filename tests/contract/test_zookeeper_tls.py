"""A session with a ZooKeeper that speaks TLS, and what is said when one side does not trust the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from coordinator.adapters.zookeeper.access import ZooKeeperAccess
from coordinator.adapters.zookeeper.membership import ZooKeeperMembership
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.cli.probes import Probes
from coordinator.core.events import ConnectionState
from coordinator.core.model import Rates, ResourceGroup
from coordinator.gate.server.tls import TlsFiles
from coordinator.ports import StoreUnreachable
from coordinator.runtime.client_tls import ClientTls
from deploy.local.addresses import LOOPBACK
from deploy.local.ports import free_block
from tests.contract.own_zookeeper import OwnZooKeeper
from tests.contract.sessions import patient, running
from tests.gate.server.test_tls import make_certificate

pytestmark = pytest.mark.cluster

ORDERS = ResourceGroup("orders", Rates(publish_messages=3_000))
CONNECTED = ConnectionState.CONNECTED


@dataclass(frozen=True, slots=True)
class Secure:
    """A ZooKeeper's address for TLS, a sidecar's files, and those of another client that it admits."""

    hosts: str
    tls: ClientTls
    stranger: TlsFiles


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A ZooKeeper that demands certificates, beside its plain port."""
    directory = tmp_path_factory.mktemp("zookeeper")
    server, own, stranger = (
        make_certificate(directory / name, name) for name in ("server", "sidecar", "stranger")
    )
    store = directory / "server.pem"
    store.write_bytes(server.key.read_bytes() + server.certificate.read_bytes())
    trusted = directory / "trusted.pem"
    trusted.write_bytes(own.certificate.read_bytes() + stranger.certificate.read_bytes())
    port = free_block()[-1]
    zookeeper = OwnZooKeeper(
        directory,
        settings={
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPort": port,
            "secureClientPortAddress": LOOPBACK,
            "ssl.keyStore.location": store,
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": trusted,
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",
        },
    )
    try:
        zookeeper.start()
        tls = ClientTls(server.certificate, own.certificate, own.key)
        yield Secure(f"{LOOPBACK}:{port}", tls, stranger)
    finally:
        zookeeper.kill()


@asynccontextmanager
async def started(session: ZooKeeperSession) -> AsyncIterator[ZooKeeperSession]:
    """The session, which is stopped in the end."""
    async with running(session):
        yield session


async def why_not(secure: Secure, tls: ClientTls) -> str:
    """Return the reason for the failure of a session's requests, once there is one."""
    session = ZooKeeperSession(secure.hosts, request_timeout_s=1.0, access=ZooKeeperAccess(tls=tls))
    async with started(session), asyncio.timeout(60):
        while True:
            with pytest.raises(StoreUnreachable) as refused:
                await session.call(lambda client: client.get_async("/"))
            if "correct" in str(refused.value):
                return str(refused.value)


async def test_a_session_with_tls_does_all_that_one_without_does(secure: Secure) -> None:
    """It reads and writes, is a member, is confirmed, and comes back after a cut."""
    access = ZooKeeperAccess("quota:secret", tls=secure.tls)
    async with started(patient(secure.hosts, access=access)) as session:
        store, membership = ZooKeeperStore(session), ZooKeeperMembership(session, version="1")
        members: asyncio.Queue[list[str]] = asyncio.Queue()
        membership.watch_members(lambda all_: members.put_nowait([each.broker for each in all_]))
        async with running(store, membership):
            await store.create_group(ORDERS)
            await membership.join("broker-1", "127.0.0.1:1")
            async with asyncio.timeout(60):
                while await members.get() != ["broker-1"]:
                    pass
            assert (await membership.confirm()).timeout_ns > 0
            async with started(patient(secure.hosts, access=access)) as other:
                found = await ZooKeeperStore(other).read_group("orders")
            assert found.group.limits == ORDERS.limits

            cut = asyncio.Event()
            session.watch_state(lambda state: cut.set() if state is not CONNECTED else None)
            session._hang_up()
            async with asyncio.timeout(60):
                await cut.wait()
                await session.wait_connected()
            assert (await store.read_group("orders")).group.limits == ORDERS.limits


async def test_a_server_of_another_authority_is_not_trusted(secure: Secure) -> None:
    """The request's error names the key, and so does the doctor."""
    wrong = replace(secure.tls, ca=secure.stranger.certificate)

    assert "correct zookeeper_tls_ca_file" in await why_not(secure, wrong)
    fault = await asyncio.to_thread(
        Probes().zookeeper_session, secure.hosts, "/pulsar-quota", ZooKeeperAccess(tls=wrong)
    )
    assert fault is not None
    assert "correct zookeeper_tls_ca_file" in fault


async def test_a_server_that_demands_a_certificate_is_named_as_the_reason(secure: Secure) -> None:
    """The message names the configuration key that is missing."""
    none = replace(secure.tls, certificate=None, key=None)

    assert "zookeeper_tls_certificate_file" in await why_not(secure, none)


async def test_the_doctor_opens_the_session_that_a_sidecar_would(secure: Secure) -> None:
    """With TLS and its credentials; a stranger to both, for a certificate is an identity too, is told."""
    probe = Probes(timeout_s=30).zookeeper_session
    ours = ZooKeeperAccess("doctor:secret", tls=secure.tls)
    async with started(patient(secure.hosts, "/doctored", ours)) as session:
        store = ZooKeeperStore(session)
        await store.create_group(ORDERS)
    assert await asyncio.to_thread(probe, secure.hosts, "/doctored", ours) is None

    shown = replace(secure.tls, certificate=secure.stranger.certificate, key=secure.stranger.key)
    theirs = ZooKeeperAccess("doctor:other", tls=shown)
    fault = await asyncio.to_thread(probe, secure.hosts, "/doctored", theirs)
    assert fault is not None
    assert "correct zookeeper_credentials_file" in fault
