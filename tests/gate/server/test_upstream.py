"""The way to the broker: PROXY headers as HAProxy's specification has them, and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coordinator.gate.server.proxy import Gate
from coordinator.gate.server.tls import TlsError, TlsFiles, common_name
from coordinator.gate.server.upstream import Address, Upstream, UpstreamTls
from coordinator.runtime.client_tls import ClientTls
from tests.gate import peer
from tests.gate.gates import gate_to, started
from tests.gate.server.hostile_site import site
from tests.gate.server.test_proxy import until
from tests.gate.server.test_tls import make_certificate, trusting

V2 = b"\r\n\r\n\0\r\nQUIT\n"
HEAD_6 = bytes.fromhex("21210024 fe80" + "00" * 13 + "01" + "00" * 15 + "01 dc04 19fa")
CLIENT, GATE = ("192.168.0.1", 56324), ("192.168.0.11", 6650)
CLIENT_6, GATE_6 = ("fe80::1%eth0", 56324), ("::1", 6650)


@pytest.mark.parametrize(
    ("version", "client", "gate", "header"),
    [
        (0, CLIENT, GATE, b""),
        (1, CLIENT, GATE, b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 6650\r\n"),
        (1, CLIENT_6, GATE_6, b"PROXY TCP6 fe80::1 ::1 56324 6650\r\n"),
        (1, None, GATE, b"PROXY UNKNOWN\r\n"),
        (2, CLIENT, GATE, V2 + bytes.fromhex("2111000c c0a80001 c0a8000b dc04 19fa")),
        (2, CLIENT_6, GATE_6, V2 + HEAD_6),
        (2, CLIENT, None, V2 + bytes.fromhex("20000000")),
    ],
)  # fmt: skip
def test_a_header_names_the_client(
    version: int, client: Address | None, gate: Address | None, header: bytes
) -> None:
    """Byte by byte; who is not known is not named."""
    upstream = Upstream("127.0.0.1", 1, lambda: 0, proxy_protocol=version)
    assert upstream.header(client, gate) == header


@asynccontextmanager
async def gate_before(
    received: list[bytes],
    context: ssl.SSLContext | None = None,
    tls: UpstreamTls | None = None,
    proxy_protocol: int = 0,
    entrance: TlsFiles | None = None,
    shown: list[str] | None = None,
) -> AsyncIterator[Gate]:
    """A gate in front of a broker that only listens, and notes whose certificates it was shown."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if shown is not None:
            shown.append(common_name(writer.get_extra_info("peercert")))
        while data := await reader.read(1000):
            received.append(data)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        async with started(
            gate_to(port, upstream_tls=tls, proxy_protocol=proxy_protocol, entrance=entrance)
        ) as gate:
            yield gate


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    """The broker's certificate, for localhost."""
    return make_certificate(tmp_path / "broker", "broker")


def serving(files: TlsFiles, *clients: TlsFiles) -> ssl.SSLContext:
    """Return the broker's context; if authorities are given, clients need a certificate of one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    for client in clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client.certificate)
    return context


async def test_the_header_comes_first_and_once() -> None:
    """Before everything that the client sends."""
    received: list[bytes] = []
    async with gate_before(received, proxy_protocol=1) as gate:
        _, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        port = writer.get_extra_info("sockname")[1]
        writer.write(peer.connect())
        writer.write(peer.PING)
        expected = f"PROXY TCP4 127.0.0.1 127.0.0.1 {port} {gate.port}\r\n".encode()

        await until(lambda: b"".join(received) == expected + peer.connect() + peer.PING)
        writer.close()


async def test_frames_pass_with_tls_and_the_header_inside(files: TlsFiles) -> None:
    """The broker's certificate is checked against the name that it should have."""
    received: list[bytes] = []
    tls = UpstreamTls("localhost", ClientTls(files.certificate))
    async with gate_before(received, serving(files), tls, proxy_protocol=2) as gate:
        _, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        writer.write(peer.connect())

        await until(lambda: b"".join(received).endswith(peer.connect()))
        assert b"".join(received).startswith(V2)
        writer.close()


async def test_the_broker_learns_whose_certificate_a_client_has_shown(
    files: TlsFiles, tmp_path: Path
) -> None:
    """The gate shows its own, and tells the client's name in the CONNECT."""
    own, alice = (make_certificate(tmp_path / name, name) for name in ("gate", "alice"))
    received: list[bytes] = []
    shown: list[str] = []
    tls = UpstreamTls("localhost", ClientTls(files.certificate, own.certificate, own.key))
    entrance = TlsFiles(own.certificate, own.key, alice.certificate)
    demanding = serving(files, own)
    async with gate_before(received, demanding, tls, entrance=entrance, shown=shown) as gate:
        assert gate.tls_port is not None
        _, writer = await asyncio.open_connection(
            "127.0.0.1", gate.tls_port, ssl=trusting(own.certificate, alice)
        )
        writer.write(peer.command(2, (1, "client"), (5, "tls")))

        expected = peer.command(2, (1, "client"), (5, "tls"), (7, "alice"))
        await until(lambda: b"".join(received) == expected)
        assert shown == ["gate"]
        writer.close()


async def test_a_gate_that_is_closed_leaves_no_connection_to_the_broker(files: TlsFiles) -> None:
    """This holds even when the client has gone and the broker does not answer the end of TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        tls = UpstreamTls("localhost", ClientTls(files.certificate))
        gate = gate_to(listening.getsockname()[1], upstream_tls=tls)
        await gate.start()
        _, client = await asyncio.open_connection("127.0.0.1", gate.port)
        client.write(peer.connect())
        with await asyncio.to_thread(_accept, listening, serving(files)) as silent:
            client.close()
            await client.wait_closed()
            await until(lambda: not gate.connection_figures())
            assert _peer_is_there(silent)

            await gate.close()
            await until(lambda: not _peer_is_there(silent))


def _accept(listening: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(listening.accept()[0], server_side=True)


def _peer_is_there(connected: socket.socket) -> bool:
    """Whether the other end of a connection is open, as the kernel knows (tcp_states.h)."""
    established = 1
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == established


async def test_the_gates_own_certificate_is_renewed_without_a_restart(
    files: TlsFiles, tmp_path: Path
) -> None:
    """The next connection shows what is in the files then; a pair that does not work changes nothing."""
    own, later = make_certificate(tmp_path / "own", "old"), make_certificate(tmp_path / "x", "new")
    shown: list[str] = []
    tls = UpstreamTls("localhost", ClientTls(files.certificate, own.certificate, own.key))
    async with gate_before([], serving(files, own, later), tls, shown=shown) as gate:
        for change in (None, (later.certificate, own.certificate), (later.key, own.key)):
            if change is not None:
                change[1].write_bytes(change[0].read_bytes())
            count = len(shown) + 1
            _, writer = await asyncio.open_connection("127.0.0.1", gate.port)
            writer.write(peer.connect())
            await until(lambda count=count: len(shown) == count)  # type: ignore[misc]
            writer.close()

    assert shown == ["old", "old", "new"]


@pytest.mark.parametrize("what", ["another name", "another authority", "no TLS at all"])
async def test_a_broker_that_proves_nothing_is_not_spoken_to(
    files: TlsFiles, tmp_path: Path, what: str
) -> None:
    """The gate turns the client away and counts it; no byte reaches the false broker."""
    received: list[bytes] = []
    other = make_certificate(tmp_path / "other", "other")
    tls = UpstreamTls(
        "broker.example.org" if what == "another name" else "localhost",
        ClientTls(other.certificate if what == "another authority" else files.certificate),
    )
    context = None if what == "no TLS at all" else serving(files)
    async with gate_before(received, context, tls) as gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        writer.write(peer.connect())

        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionResetError):  # its CONNECT was never read
                assert await reader.read() == b""
        assert gate.figures().upstream_failures == 1
        assert peer.connect() not in b"".join(received)
        writer.close()


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """The gate names them at its start, before a client connects."""
    missing = tmp_path / "missing.pem"
    with pytest.raises(TlsError, match=r"missing\.pem"):
        Upstream("127.0.0.1", 1, lambda: 0, tls=UpstreamTls("localhost", ClientTls(missing)))


async def test_a_gate_that_is_closed_as_it_begins_to_dial_closes() -> None:
    """The attempt has not begun to run, and so cannot tell of its end."""
    async with site() as here:
        await here.visit()
        await until(lambda: here.gate.figures().connections == 1)
        (connection,) = here.gate._connections
        connection.data_received(peer.connect())

        async with asyncio.timeout(20):
            await here.gate.close()
        assert connection.ended.is_set()
