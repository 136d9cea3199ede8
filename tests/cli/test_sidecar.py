"""``sidecar``: the start of a process of its own, and what ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.nowhere import DOCUMENT

COMMAND = (sys.executable, "-m", "coordinator.cli", "sidecar", "--config")


def toml(**keys: str) -> str:
    """A configuration of places where nothing answers, with these keys."""
    return "\n".join(f'{key} = "{value}"' for key, value in (DOCUMENT | keys).items())


@pytest.mark.slow
def test_an_address_of_the_api_that_is_in_use_is_a_mistake_in_the_configuration(
    tmp_path: Path,
) -> None:
    """The last line names the key, the address and the reason; nothing was connected before."""
    file = tmp_path / "sidecar.toml"
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        socket.create_server(("127.0.0.1", 0)) as zookeeper,
    ):
        address, servers = (f"127.0.0.1:{each.getsockname()[1]}" for each in (taken, zookeeper))
        file.write_text(toml(admin_listen=address, zookeeper_servers=servers))
        done = subprocess.run([*COMMAND, file], check=False, capture_output=True, text=True)
        zookeeper.setblocking(False)
        with pytest.raises(BlockingIOError):
            zookeeper.accept()

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        f"admin_listen {address}: address already in use"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "exit_code"), [("SIGHUP", 2), ("SIGTERM", -signal.SIGTERM)])
def test_signals_while_it_starts(tmp_path: Path, number: str, exit_code: int) -> None:
    """One that would have the configuration read again is harmless; one to stop it ends it."""
    file = tmp_path / "sidecar.toml"
    os.mkfifo(file)
    with subprocess.Popen([*COMMAND, file], stderr=subprocess.PIPE, text=True) as process:
        # The file opens when the process reads it, and may be closed after that has ended.
        with contextlib.suppress(BrokenPipeError), file.open("w") as configuration:
            process.send_signal(signal.Signals[number])
            configuration.write("no configuration")
        _, told = process.communicate()

    assert process.returncode == exit_code
    assert ("not a TOML file" in told) == (exit_code == 2)
