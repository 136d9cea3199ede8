"""The gate in its own process: mistakes are told, and both processes have one life."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
from pathlib import Path

import pytest

from coordinator.config import ConfigError
from coordinator.core.model import Rates
from coordinator.gate.process.handle import GateProcess
from coordinator.gate.process.spawning import handed_over, spawned
from coordinator.ports import GateGone
from tests.gate import peer
from tests.gate.conftest import TOPIC
from tests.gate.process.processes import config, site, speaking
from tests.gate.server.test_proxy import Client, FakeBroker
from tests.gate.server.test_tls import make_certificate


async def test_a_mistake_in_the_configuration_is_told_by_its_key() -> None:
    """The message is the same as for a gate in this process."""
    settings = {
        "gate_tls_listen": "127.0.0.1:0",
        "gate_tls_certificate_file": "/nowhere/certificate.pem",
        "gate_tls_key_file": "/nowhere/key.pem",
    }
    with spawned() as child, pytest.raises(ConfigError, match=r"gate_tls_.*/certificate\.pem"):
        async with GateProcess.over(child, config(1, **settings)):
            pass
    assert child.process.returncode == 0


@pytest.mark.parametrize("key", ["gate_listen", "gate_tls_listen"])
async def test_a_port_that_is_taken_is_a_mistake_in_the_configuration(
    key: str, tmp_path: Path
) -> None:
    """The coordinator that started the gate can still read the key and the reason."""
    files = make_certificate(tmp_path, "gate")
    tls = {
        "gate_tls_listen": "127.0.0.1:0",
        "gate_tls_certificate_file": str(files.certificate),
        "gate_tls_key_file": str(files.key),
    }
    with spawned() as child:
        async with site() as here:
            address = f"127.0.0.1:{here.port}"
            async with GateProcess.over(child, config(1, **(tls | {key: address}))) as other:
                with pytest.raises(ConfigError, match=f"^{key} {address}: address already in use"):
                    await other.start()
                assert (await other.figures()).connections == 0


async def test_who_connects_to_a_socket_that_is_kept_waits_for_the_next_gate() -> None:
    """A supervisor keeps it while one sidecar after the other has it."""
    async with FakeBroker() as broker:
        with socket.create_server(("127.0.0.1", 0)) as kept:
            port = kept.getsockname()[1]
            settings = {"gate_listen": f"127.0.0.1:{port}"}
            for _ in range(2):
                early = Client(*await asyncio.open_connection("127.0.0.1", port))
                with spawned(listening=[os.dup(kept.fileno())]) as child:
                    async with GateProcess.over(child, config(broker.port, **settings)) as gate:
                        assert await gate.start() == port
                        async with speaking(gate):
                            await early.opens(peer.producer(TOPIC))
                early.writer.close()


async def test_a_socket_for_which_there_is_no_key_is_a_mistake_in_the_configuration() -> None:
    """The supervisor's configuration may have it; the socket would never be answered."""
    with (
        socket.create_server(("127.0.0.1", 0)) as kept,
        spawned(listening=[os.dup(kept.fileno())]) as child,
        pytest.raises(ConfigError, match=r"gate_listen: .* ListenStream"),
    ):
        async with GateProcess.over(child, config(1)):
            pass


def test_sockets_are_those_that_were_handed_to_this_very_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """sd_listen_fds(3) says so; processes that this one starts hear nothing of them."""
    monkeypatch.setenv("LISTEN_FDS", "2")
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    assert handed_over() == (3, 4)
    assert handed_over() == ()
    monkeypatch.setenv("LISTEN_FDS", "2")
    monkeypatch.setenv("LISTEN_PID", str(os.getppid()))
    assert handed_over() == ()


async def test_a_gate_whose_coordinator_is_gone_ends_at_once() -> None:
    """Its connections end with it, without a command."""
    with spawned() as child:
        async with GateProcess.over(child, config(1)) as gate:
            await gate.start()
        child.end.close()
        assert child.process.wait(30) == 0


async def test_a_coordinator_hears_that_its_gate_is_gone() -> None:
    """Every pending and later question fails."""
    async with site() as here:
        await here.client()
        here.process.kill()
        with pytest.raises(GateGone, match="has ended"):
            await here.gate.ends()
        with pytest.raises(GateGone, match="has ended"):
            await here.gate.collect()
        here.gate.set_limits("group", Rates(publish_messages=1))
        here.gate.when_in_force(lambda: pytest.fail("it cannot be"))


async def test_signals_to_both_are_the_coordinators() -> None:
    """A supervisor sends SIGTERM to all processes of a service, a terminal SIGINT and SIGHUP."""
    async with site() as here:
        client = await here.client()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            here.process.send_signal(number)
        assert await client.asks(peer.send(1, 1)) == peer.receipt(1, 1)


async def test_a_gate_stands_still_with_its_coordinator() -> None:
    """Frames under way wait without a limit, and go on when the coordinator speaks again."""
    async with site(speaks=False, zookeeper_session_timeout_seconds=1.0) as here:
        async with speaking(here.gate):
            client = await here.client()
        turns = itertools.cycle(range(1, 100))
        async with asyncio.timeout(60):
            with contextlib.suppress(TimeoutError):
                while True:  # no question reaches the gate meanwhile
                    client.writer.write(peer.send(1, turn := next(turns)))
                    async with asyncio.timeout(1):
                        assert await asyncio.shield(waiting := asyncio.ensure_future(client.next()))

        await here.gate.collect()
        assert await waiting == peer.receipt(1, turn)


async def test_the_level_of_the_log_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """A malformed frame is a warning, which a log of errors does not show."""
    async with site() as here:
        here.gate.set_log_level("error")
        await here.gate.collect()
        bad = await here.client()
        assert await bad.asks(b"GET / HTTP/1.1\r\n\r\n") == b""
        here.gate.set_log_level("warning")
        await here.gate.collect()
        worse = await here.client()
        assert await worse.asks(b"GET / HTTP/1.1\r\n\r\n") == b""
    assert capfd.readouterr().err.count("malformed frame") == 1
