"""TLS up to the gate, plain to the broker; certificates that change, and such as do not work."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from coordinator.core.model import Rates
from coordinator.gate.server.tls import ServerCertificate, TlsError, TlsFiles
from tests.gate import peer
from tests.gate.conftest import TOPIC
from tests.gate.server.test_proxy import GROUP, Client, Site, site, until


def make_certificate(directory: Path, name: str) -> TlsFiles:
    """A new key, and a certificate that it signed itself."""
    directory.mkdir(exist_ok=True)
    files = TlsFiles(directory / "certificate.pem", directory / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(files.key), "-out", str(files.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return files


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    """The gate's certificate."""
    return make_certificate(tmp_path / "gate", "gate")


def trusting(certificate: Path, own: TlsFiles | None = None) -> ssl.SSLContext:
    """Return a client's context: the authority that it trusts, and its own certificate."""
    context = ssl.create_default_context(cafile=certificate)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


async def connect(here: Site, context: ssl.SSLContext) -> Client:
    """Connect with TLS."""
    assert here.gate.tls_port is not None
    client = Client(*await asyncio.open_connection("127.0.0.1", here.gate.tls_port, ssl=context))
    here.clients.append(client)
    return client


@contextmanager
def refused() -> Iterator[None]:
    """A handshake that fails; TLS 1.3 tells the client only when it reads."""
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        yield


async def test_frames_pass_and_limits_hold(files: TlsFiles) -> None:
    """TLS changes nothing: the broker gets the same plain frames."""
    async with site(tls=files) as here:
        here.gate.set_attachments(GROUP)
        secure, plain = await connect(here, trusting(files.certificate)), await here.client()
        await secure.opens(peer.producer(TOPIC))
        large = peer.send(1, 1, content=bytes(range(256)) * 10_000)
        assert await secure.asks(large) == peer.receipt(1, 1)
        assert await plain.asks(peer.send(1, 2)) == peer.receipt(1, 2)
        assert large in here.broker.received

        here.gate.set_limits("group", Rates(publish_messages=0))
        secure.writer.write(peer.send(1, 3))
        await until(lambda: here.gate.figures().held_frames == 1)
        here.gate.remove_limits("group")

        assert await secure.next() == peer.receipt(1, 3)


async def test_a_client_without_tls_is_turned_away(files: TlsFiles) -> None:
    """Its bytes are no handshake; other clients go on."""
    async with site(tls=files) as here:
        assert here.gate.tls_port is not None
        stranger = Client(*await asyncio.open_connection("127.0.0.1", here.gate.tls_port))
        here.clients.append(stranger)
        stranger.writer.write(peer.connect())

        async with asyncio.timeout(30):
            await stranger.reader.read()  # an alert at most, then the end
        assert here.broker.received == []
        good = await connect(here, trusting(files.certificate))
        assert await good.asks(peer.PING) == peer.PONG


async def test_clients_certificates_can_be_demanded(files: TlsFiles, tmp_path: Path) -> None:
    """A client without a certificate, or with an unknown one, does not get in."""
    own, foreign = make_certificate(tmp_path / "own", "c"), make_certificate(tmp_path / "x", "x")
    demanding = TlsFiles(files.certificate, files.key, own.certificate)
    async with site(tls=demanding) as here:
        known = await connect(here, trusting(files.certificate, own))
        assert await known.asks(peer.PING) == peer.PONG
        for stranger in (None, foreign):
            with refused():
                client = await connect(here, trusting(files.certificate, stranger))
                client.writer.write(peer.PING)
                async with asyncio.timeout(30):
                    await client.reader.readexactly(1)


async def test_a_new_certificate_is_used_without_a_restart(files: TlsFiles, tmp_path: Path) -> None:
    """Open connections go on; who comes later sees the new one."""
    old = tmp_path / "old.pem"
    old.write_bytes(files.certificate.read_bytes())
    async with site(tls=files) as here:
        early = await connect(here, trusting(old))
        make_certificate(files.certificate.parent, "gate")
        here.gate.refresh_certificate()

        assert await early.asks(peer.PING) == peer.PONG
        late = await connect(here, trusting(files.certificate))
        assert await late.asks(peer.PING) == peer.PONG
        with refused():
            await connect(here, trusting(old))


async def test_a_certificate_that_does_not_work_changes_nothing(files: TlsFiles) -> None:
    """Half of a pair, on its way to the disk: said once, and the old pair stays in use."""
    old = trusting(files.certificate)
    async with site(tls=files) as here:
        files.key.write_text("not a key")
        with structlog.testing.capture_logs() as logs:
            here.gate.refresh_certificate()
            here.gate.refresh_certificate()

        assert [log["log_level"] for log in logs] == ["error"]
        assert str(files.key) in logs[0]["reason"]
        client = await connect(here, old)
        assert await client.asks(peer.PING) == peer.PONG


async def test_a_drain_answers_what_was_forwarded(files: TlsFiles) -> None:
    """Receipts come before the goodbye, with TLS too."""
    async with site(tls=files) as here:
        here.broker.answers = False
        client = await connect(here, trusting(files.certificate))
        await client.opens(peer.producer(TOPIC))
        client.writer.write(peer.send(1, 1))
        await until(lambda: len(here.broker.sends()) == 1)
        drain = asyncio.create_task(here.gate.drain(5))
        await asyncio.sleep(0.01)
        here.broker.writers[0].write(peer.receipt(1, 1))

        assert [await client.next(), await client.next()] == [peer.receipt(1, 1), b""]
        client.writer.close()
        await drain


@pytest.mark.parametrize("broken", ["certificate", "key", "client_ca"])
def test_files_that_cannot_be_used_are_named(files: TlsFiles, broken: str) -> None:
    """The gate names them at its start, before a client connects."""
    with_ca = TlsFiles(files.certificate, files.key, files.certificate.with_name("ca.pem"))
    assert with_ca.client_ca is not None
    with_ca.client_ca.write_bytes(files.certificate.read_bytes())
    path = getattr(with_ca, broken)
    path.write_text("nonsense")

    with pytest.raises(TlsError, match=path.name):
        ServerCertificate(with_ca)
