"""No client borrows a role: CONNECT, lookups and authentication at a gate that vouches for its clients.

The gate shows a real broker a certificate whose role is a super-user's and may speak for others. A client
that the broker takes for the gate, or for the principal of its choice, may publish; bob may not. A role
that the broker lets speak for others may do so through a gate, with its own token; no other role may.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest

from coordinator.gate.server.proxy import Gate
from coordinator.gate.server.tls import TlsFiles
from deploy.local.cluster import Cluster
from tests.admin_api.keys import in_seconds, token
from tests.clients.decoding import command_of
from tests.gate import peer
from tests.gate.gates import gate_to, started
from tests.gate.peer import varint
from tests.gate.server.test_proxy import read_frame
from tests.gate.server.test_tls import trusting
from tests.integration.test_identity import broker, certificates, gate_before

__all__ = ["broker", "certificates"]

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

TOPIC = "persistent://t/n/borrowed"
CONNECTED, ERROR, PRODUCER_SUCCESS, AUTH_CHALLENGE, LOOKUP_RESPONSE = 3, 14, 17, 36, 24
METADATA_RESPONSE = 22
LOOKUP_FAILED, METADATA_FAILED = 2, 1
_BIT_32 = 1 << 32
_WAIT_S = 10.0

Broker = tuple[Cluster, int]
Certificates = dict[str, TlsFiles]


@pytest.fixture(scope="module", autouse=True)
def owned(broker: Broker) -> None:
    """The broker owns the topic: what is refused is refused for its role, and for nothing else."""
    headers = {"Authorization": f"Bearer {token('admin')}"}
    with httpx.Client(
        base_url=broker[0].web_url(), headers=headers, trust_env=False, timeout=30.0
    ) as http:
        path = TOPIC.replace("://", "/")
        http.put(f"/admin/v2/{path}").raise_for_status()
        http.get(f"/lookup/v2/topic/{path}").raise_for_status()


class Client:
    """A connection to the gate."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def asks(self, request: bytes, *kinds: int) -> bytes:
        """Send a frame, and wait for one of these types; nothing if the connection ends."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(request)
        return await self.next(*kinds)

    async def next(self, *kinds: int) -> bytes:
        """The next frame of one of these types; nothing if the connection ends."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(_WAIT_S):
                while frame := await read_frame(self._reader):
                    if command_of(frame).kind in kinds:
                        return frame
        return b""

    async def may_publish(self, connect: bytes) -> bool:
        """Whether the broker opens a producer after this CONNECT."""
        if command_kind(await self.asks(connect, CONNECTED, ERROR)) != CONNECTED:
            return False
        return await self.opens_producer()

    async def opens_producer(self, request_id: int = 1) -> bool:
        """Whether the broker opens one."""
        request = peer.producer(TOPIC, request_id, request_id)
        return command_kind(await self.asks(request, PRODUCER_SUCCESS, ERROR)) == PRODUCER_SUCCESS


def command_kind(frame: bytes) -> int:
    """The type of a frame; 0 if the connection ended."""
    return command_of(frame).kind if frame else 0


@asynccontextmanager
async def client_of(
    broker: Broker, certificates: Certificates, name: str, role: str = "gate"
) -> AsyncIterator[Client]:
    """A client with the certificate of this name, or without TLS, at a gate that vouches in a role."""
    async with gate_before(certificates, broker[1], role) as gate:
        context: ssl.SSLContext | None = None
        port = gate.port
        if name:
            assert gate.tls_port is not None
            port = gate.tls_port
            context = trusting(certificates["gate"].certificate, certificates[name])
        async with connected(port, context) as client:
            yield client


@asynccontextmanager
async def connected(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    """A client of a gate at this port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                await writer.wait_closed()


def gate_of_kind(
    kind: str, broker: Broker, certificates: Certificates
) -> AbstractAsyncContextManager[Gate]:
    """A gate that vouches for clients with certificates, or a plain one, which vouches for none."""
    if kind == "vouches":
        return gate_before(certificates, broker[1])
    return started(gate_to(broker[0].brokers[0].broker_port))


def text(number: int, value: str, *, high: bool = False) -> bytes:
    """A field with a text, its tag with a 33rd bit if wanted."""
    raw = value.encode()
    return varint(number << 3 | 2 | (_BIT_32 if high else 0)) + varint(len(raw)) + raw


def connect(*parts: bytes) -> bytes:
    """CONNECT with these bytes behind its usual fields."""
    fields = peer.message((1, "attack"), (4, 19)) + b"".join(parts)
    return peer.frame(peer.message((1, 2), (2, fields)))


def connects(principal: str) -> dict[str, bytes]:
    """CONNECTs that Pulsar's decoder reads as method tls, most of them in the name of a principal."""
    usual = peer.message((1, "attack"), (4, 19))
    claim = text(5, "tls") + text(7, principal)
    flags = text(10, "") + text(7, principal)
    return {
        "no name": connect(text(5, "tls")),
        "a name": connect(claim),
        "a name and credentials": connect(claim, text(8, "x"), text(9, "tls")),
        "the old number of the method": connect(peer.message((2, 0)), text(7, principal)),
        "method behind a 33-bit tag": connect(text(5, "tls", high=True), text(7, principal)),
        "all behind 33-bit tags": connect(text(5, "tls", high=True), text(7, principal, high=True)),
        "name behind a 33-bit tag": connect(text(5, "tls"), text(7, principal, high=True)),
        "overlong tags": connect(b"\xaa\x00\x03tls", b"\xba\x00", text(7, principal)[1:]),
        "method twice": connect(text(5, "token"), claim),
        "name twice": connect(claim, text(7, principal)),
        "type twice": peer.frame(peer.message((1, 19)) + peer.message((1, 2), (2, usual + claim))),
        "two CONNECTs in one": peer.frame(peer.message((1, 2), (2, usual), (2, usual + claim))),
        "behind a PING": peer.PING + connect(claim),
        "inside of feature flags": connect(text(5, "tls"), b"\x52", varint(len(flags)), flags),
        "behind flags that are longer": connect(
            text(5, "tls"), b"\x52\x02\x0a\x40", text(7, principal)
        ),
    }


@pytest.mark.parametrize("name", ["", "bob"], ids=["no certificate", "bob"])
@pytest.mark.parametrize("principal", ["alice", "admin", "gate"])
async def test_no_connect_names_a_role(
    broker: Broker, certificates: Certificates, name: str, principal: str
) -> None:
    """Neither the gate's nor that of another client, however it is written."""
    for way, said in connects(principal).items():
        async with client_of(broker, certificates, name) as client:
            assert not await client.may_publish(said), way


async def test_a_certificate_is_what_may_publish(
    broker: Broker, certificates: Certificates
) -> None:
    """So what is refused above is refused for its role."""
    async with client_of(broker, certificates, "alice") as client:
        assert await client.may_publish(connect(text(5, "tls")))


@pytest.mark.parametrize("principal", ["alice", "admin", "gate"])
async def test_no_lookup_names_a_role(
    broker: Broker, certificates: Certificates, principal: str
) -> None:
    """The broker answers bob, who may not see the topic."""
    lookup = peer.command(23, (1, TOPIC), (2, 1), (3, 0), (4, principal), (6, "tls"))
    async with client_of(broker, certificates, "bob") as client:
        await client.asks(connect(text(5, "tls")), CONNECTED)
        answer = await client.asks(lookup, LOOKUP_RESPONSE)

    assert command_of(answer).number(3) == LOOKUP_FAILED


@pytest.mark.parametrize("name", ["", "alice", "bob"], ids=["no certificate", "alice", "bob"])
async def test_a_gate_that_may_not_speak_for_others_lends_its_role_to_nobody(
    broker: Broker, certificates: Certificates, name: str
) -> None:
    """It has alice's certificate, who may publish and is not in the broker's proxyRoles."""
    said = connects("alice")
    for way in ("no name", "a name", "method behind a 33-bit tag", "type twice"):
        async with client_of(broker, certificates, name, role="alice") as client:
            assert not await client.may_publish(said[way]), way


def spoken_for(role: str, principal: str) -> bytes:
    """CONNECT with the token of a role, or none, in the name of another, or in its own."""
    shown = text(5, "token") + text(3, token(role)) if role else b""
    return connect(shown, text(7, principal) if principal else b"")


@pytest.mark.parametrize("kind", ["vouches", "plain"])
@pytest.mark.parametrize(
    ("role", "principal", "may"),
    [
        ("gate", "alice", True),
        ("gate", "bob", False),
        ("gate", "", False),
        ("gate", "gate", False),
        ("alice", "", True),
        ("alice", "admin", False),
        ("alice", "gate", False),
        ("bob", "", False),
        ("bob", "alice", False),
        ("bob", "admin", False),
        ("bob", "gate", False),
        ("", "", False),
        ("", "alice", False),
        ("", "admin", False),
    ],
)
async def test_a_token_speaks_for_another_only_if_the_broker_lets_its_role(
    broker: Broker, certificates: Certificates, kind: str, role: str, principal: str, *, may: bool
) -> None:
    """The gate's role is in proxyRoles, as that of a Pulsar proxy is; both roles must be allowed."""
    async with gate_of_kind(kind, broker, certificates) as gate, connected(gate.port) as client:
        assert await client.may_publish(spoken_for(role, principal)) == may


@pytest.mark.parametrize("kind", ["vouches", "plain"])
@pytest.mark.parametrize("principal", ["alice", "admin", "gate"])
async def test_a_token_asks_for_another_only_if_the_broker_lets_its_role(
    broker: Broker, certificates: Certificates, kind: str, principal: str
) -> None:
    """Bob learns neither where the topic is nor how many partitions it has."""
    lookup = peer.command(23, (1, TOPIC), (2, 1), (3, 0), (4, principal))
    metadata = peer.command(21, (1, TOPIC), (2, 2), (3, principal))
    async with gate_of_kind(kind, broker, certificates) as gate, connected(gate.port) as client:
        assert await client.asks(spoken_for("bob", ""), CONNECTED)
        found = await client.asks(lookup, LOOKUP_RESPONSE)
        assert command_of(found).number(3) == LOOKUP_FAILED
        found = await client.asks(metadata, METADATA_RESPONSE, ERROR)
        assert command_of(found).kind == ERROR or command_of(found).number(3) == METADATA_FAILED


def with_token(role: str, seconds: int) -> bytes:
    """CONNECT with a token for so long, of a client that can renew it."""
    shown = text(5, "token") + text(3, token(role, exp=in_seconds(seconds)))
    return connect(shown, peer.message((10, peer.message((1, 1)))))


def response(method: str, data: str) -> bytes:
    """AUTH_RESPONSE."""
    return peer.command(37, (1, "c"), (2, peer.message((1, method), (2, data))), (3, 19))


async def test_a_client_that_renews_its_token_goes_on(
    broker: Broker, certificates: Certificates
) -> None:
    """One answer to each challenge of the broker passes; a further one ends the connection."""
    async with client_of(broker, certificates, "") as client:
        assert await client.may_publish(with_token("alice", 3))
        assert await client.next(AUTH_CHALLENGE)
        renewed = response("token", token("alice", exp=in_seconds(60)))
        await client.asks(renewed + peer.PING, 19)
        assert await client.opens_producer(2)

        assert await client.asks(renewed + peer.producer(TOPIC, 3, 3), PRODUCER_SUCCESS) == b""


@pytest.mark.parametrize(("method", "data"), [("tls", ""), ("tls", "alice"), ("", "")])
async def test_no_answer_to_a_challenge_borrows_a_role(
    broker: Broker, certificates: Certificates, method: str, data: str
) -> None:
    """Bob, whose token is over, is not taken for the gate by its certificate."""
    async with client_of(broker, certificates, "") as client:
        await client.asks(with_token("bob", 2), CONNECTED)
        assert await client.next(AUTH_CHALLENGE)
        await client.asks(response(method, data) + peer.PING, 19)

        assert not await client.opens_producer(2)


@pytest.mark.parametrize("method", ["tls", "token"])
async def test_no_answer_comes_without_a_challenge(
    broker: Broker, certificates: Certificates, method: str
) -> None:
    """It would authenticate the connection again, as the gate's."""
    async with client_of(broker, certificates, "bob") as client:
        await client.asks(connect(text(5, "tls")), CONNECTED)

        said = response(method, "") + peer.producer(TOPIC, 2, 2)
        assert await client.asks(said, PRODUCER_SUCCESS, ERROR) == b""
