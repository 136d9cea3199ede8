"""A client's certificate, shown to the gate, is what a real broker judges the client by."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from coordinator.adapters.pulsar.bus import PulsarBus
from coordinator.app import factories
from coordinator.core.model import Attachments, Rates
from coordinator.gate.server.proxy import Gate
from coordinator.gate.server.tls import TlsFiles
from coordinator.gate.server.upstream import UpstreamTls
from coordinator.runtime.client_tls import ClientTls
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.ports import free_block
from tests.admin_api.keys import SECRET, token
from tests.config.nowhere import NOWHERE
from tests.gate import peer
from tests.gate.gates import gate_to, started
from tests.gate.server.test_proxy import read_frame
from tests.gate.server.test_tls import make_certificate, trusting
from tests.pulsar_version import pulsar_version

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

CONNECT = peer.command(2, (1, "test"), (4, 19), (5, "tls"))
CONNECTED, SEND_RECEIPT, PRODUCER_SUCCESS, ERROR, LOOKUP_RESPONSE = 3, 7, 17, 14, 24
RATE = 20
"""Messages per second that alice may publish."""
_PROVIDERS = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TlsFiles]:
    """Of the broker, the gate and two clients."""
    directory = tmp_path_factory.mktemp("certificates")
    names = ("broker", "gate", "alice", "bob")
    made = {name: make_certificate(directory / name, name) for name in names}
    authorities = "".join(files.certificate.read_text() for files in made.values())
    (directory / "all.pem").write_text(authorities)
    (directory / "secret").write_bytes(SECRET)
    return made


@pytest.fixture(scope="module")
def broker(
    certificates: dict[str, TlsFiles], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, int]]:
    """A cluster of one broker that authenticates all clients; and its port with TLS."""
    directory = certificates["broker"].certificate.parent.parent
    tls_port = free_block()[-1]
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": f"{_PROVIDERS}Tls,{_PROVIDERS}Token",
        "authenticationRefreshCheckSeconds": "1",
        "authorizationEnabled": "true",
        "anonymousUserRole": "nobody",
        "superUserRoles": "admin,gate",
        "proxyRoles": "gate",
        "tokenSecretKey": f"file://{directory / 'secret'}",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{token('admin')}",
        "brokerServicePortTls": str(tls_port),
        "tlsCertificateFilePath": str(certificates["broker"].certificate),
        "tlsKeyFilePath": str(certificates["broker"].key),
        "tlsTrustCertsFilePath": str(directory / "all.pem"),
    }
    options = ClusterOptions(
        state_dir=tmp_path_factory.mktemp("cluster"),
        brokers=1,
        pulsar=pulsar_version(),
        broker_settings=settings,
        quick=True,
    )
    with Cluster.start(options) as cluster:
        headers = {"Authorization": f"Bearer {token('admin')}"}
        with httpx.Client(
            base_url=cluster.web_url(), headers=headers, trust_env=False, timeout=30.0
        ) as http:
            tenant = {"adminRoles": [], "allowedClusters": ["local"]}
            http.put("/admin/v2/tenants/t", json=tenant).raise_for_status()
            http.put("/admin/v2/namespaces/t/n").raise_for_status()
            allowed = http.post("/admin/v2/namespaces/t/n/permissions/alice", json=["produce"])
            allowed.raise_for_status()
        yield cluster, tls_port


def gate_before(
    certificates: dict[str, TlsFiles], port: int, role: str = "gate"
) -> AbstractAsyncContextManager[Gate]:
    """A gate that demands a certificate, and shows the broker that of a role."""
    own, broker = certificates["gate"], certificates["broker"]
    entrance = TlsFiles(own.certificate, own.key, own.certificate.parent.parent / "all.pem")
    as_role = certificates[role]
    shown = ClientTls(broker.certificate, as_role.certificate, as_role.key)
    return started(gate_to(port, entrance=entrance, upstream_tls=UpstreamTls("localhost", shown)))


async def answers(port: int, context: ssl.SSLContext | None, *requests: bytes) -> list[int]:
    """The type of the answer to each of these, asked one after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = []
    try:
        async with asyncio.timeout(20):
            for request in requests:
                writer.write(request)
                found.append(peer.kind_of(await read_frame(reader)))
    finally:
        writer.close()
        with contextlib.suppress(OSError):  # the gate may have been faster
            await writer.wait_closed()
    return found


@pytest.mark.parametrize(("name", "outcome"), [("alice", PRODUCER_SUCCESS), ("bob", ERROR)])
async def test_a_client_may_do_what_the_role_of_its_certificate_may(
    broker: tuple[Cluster, int], certificates: dict[str, TlsFiles], name: str, outcome: int
) -> None:
    """The gate is a super-user; behind it alice may publish and bob may not."""
    topic = f"persistent://t/n/of-{name}"
    context = trusting(certificates["gate"].certificate, certificates[name])
    async with gate_before(certificates, broker[1]) as gate:
        assert gate.tls_port is not None
        lookup = peer.command(23, (1, topic), (2, 1), (3, 0))
        found = await answers(gate.tls_port, context, CONNECT, lookup, peer.producer(topic, 1, 2))

    assert found[:2] == [CONNECTED, LOOKUP_RESPONSE]
    assert found[2] == outcome


async def test_a_client_is_limited_by_the_role_of_its_certificate(
    broker: tuple[Cluster, int], certificates: dict[str, TlsFiles]
) -> None:
    """Neither by the role that the gate shows the broker, nor as an unknown one: both may do nothing."""
    context = trusting(certificates["gate"].certificate, certificates["alice"])
    async with gate_before(certificates, broker[1]) as gate:
        gate.set_attachments(Attachments(roles={"alice": "slow", "": "others"}))
        gate.set_limits("slow", Rates(publish_messages=RATE))
        gate.set_limits("others", Rates(publish_messages=0))
        began_s = time.monotonic()
        await publishes(gate, context, "persistent://t/n/limited", 3 * RATE)
        took_s = time.monotonic() - began_s
        (alice,) = gate.role_traffic()

    assert took_s > 1.5
    assert (alice.role, alice.group, alice.messages) == ("alice", "slow", 3 * RATE)
    assert alice.held_ns > 0


async def publishes(gate: Gate, context: ssl.SSLContext, topic: str, messages: int) -> None:
    """Publish as many messages as fast as the gate lets, until the broker has confirmed them all."""
    assert gate.tls_port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.tls_port, ssl=context)
    try:
        async with asyncio.timeout(60):
            lookup = peer.command(23, (1, topic), (2, 1), (3, 0))
            opened = False
            for request in (CONNECT, lookup, peer.producer(topic, 1, 2)):
                writer.write(request)
                opened = peer.kind_of(await read_frame(reader)) == PRODUCER_SUCCESS
            assert opened
            for number in range(messages):
                writer.write(peer.send(1, number, checksum=False))
            receipts = 0
            while receipts < messages:
                receipts += peer.kind_of(await read_frame(reader)) == SEND_RECEIPT
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_nobody_borrows_the_gates_role(
    broker: tuple[Cluster, int], certificates: dict[str, TlsFiles]
) -> None:
    """Without a certificate, or in another client's name, the answer is an error."""
    claims = peer.command(2, (1, "test"), (4, 19), (5, "tls"), (7, "alice"))
    bob = trusting(certificates["gate"].certificate, certificates["bob"])
    async with gate_before(certificates, broker[1]) as gate:
        assert gate.tls_port is not None
        assert await answers(gate.port, None, CONNECT) == [ERROR]
        assert await answers(gate.tls_port, bob, claims) == [ERROR]


def bus_of(cluster: Cluster, token_file: str) -> PulsarBus:
    """The bus as a sidecar opens it that shows this token."""
    config = replace(
        NOWHERE,
        broker_web_url=cluster.web_url(),
        bus_service_url=f"pulsar://127.0.0.1:{cluster.brokers[0].broker_port}",
        bus_topics=("non-persistent://t/bus/usage",),
        bus_token_file=token_file,
    )
    return factories.bus(config)


async def test_a_sidecars_role_needs_its_bus_topics_and_nothing_else(
    broker: tuple[Cluster, int], tmp_path: Path
) -> None:
    """It reports and hears itself, with the permissions that the documentation names."""
    cluster, _ = broker
    (tmp_path / "token").write_text(token("sidecar"))
    headers = {"Authorization": f"Bearer {token('admin')}"}
    async with httpx.AsyncClient(
        base_url=cluster.web_url(), headers=headers, trust_env=False, timeout=30.0
    ) as http:
        (await http.put("/admin/v2/namespaces/t/bus")).raise_for_status()
        permissions = "/admin/v2/namespaces/t/bus/permissions/sidecar"
        (await http.post(permissions, json=["produce", "consume"])).raise_for_status()
    heard = asyncio.Event()
    ours, strangers = bus_of(cluster, str(tmp_path / "token")), bus_of(cluster, "")
    ours.watch(lambda _: heard.set())
    for bus in (ours, strangers):
        await bus.start()
    try:
        async with asyncio.timeout(60):
            while not heard.is_set():
                ours.publish(b"report")
                await asyncio.sleep(0.2)
        assert not any(strangers.health().connected.values())
    finally:
        for bus in (ours, strangers):
            await bus.stop()
