"""With ``pulsar+ssl://`` the bus trusts a broker of the configured authority, and no other."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator.adapters.pulsar.bus import PulsarBus
from coordinator.gate.server.tls import TlsFiles
from tests.gate.server.test_tls import make_certificate

CONNECT = "the first bytes of a client"
REFUSED = "a handshake that the client broke off"


@contextmanager
def broker_with(files: TlsFiles) -> Iterator[tuple[int, asyncio.Queue[str]]]:
    """Run a server that shows a certificate; yield its port, and the outcome of each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    loop, seen = asyncio.get_running_loop(), asyncio.Queue[str]()

    def serve() -> None:
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:  # the test is over
                return
            with accepted:
                accepted.settimeout(30)
                try:
                    with context.wrap_socket(accepted, server_side=True) as secured:
                        found = CONNECT if secured.recv(4) else REFUSED
                except OSError:  # SSLError is one
                    found = REFUSED
            loop.call_soon_threadsafe(seen.put_nowait, found)

    listening = socket.create_server(("127.0.0.1", 0))
    serving = threading.Thread(target=serve)
    serving.start()
    try:
        yield listening.getsockname()[1], seen
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        serving.join()
        listening.close()


@pytest.mark.parametrize(("trusted", "outcome"), [("broker", CONNECT), ("stranger", REFUSED)])
async def test_only_a_broker_of_the_named_authority_is_told_anything(
    tmp_path: Path, trusted: str, outcome: str
) -> None:
    """One of another authority hears no token and no report."""
    files = {name: make_certificate(tmp_path / name, name) for name in ("broker", "stranger")}
    with broker_with(files["broker"]) as (port, seen):
        bus = PulsarBus(
            f"pulsar+ssl://127.0.0.1:{port}",
            ("non-persistent://pulsar/system/quota-usage",),
            token="secret",
            tls_trust_certs_file=str(files[trusted].certificate),
        )
        await bus.start()
        try:
            async with asyncio.timeout(60):
                found = await seen.get()
                while trusted == "broker" and found != outcome:  # a slow machine's client hangs up
                    found = await seen.get()
            assert found == outcome
        finally:
            await bus.stop()
