"""``sidecar``: the start of a process of its own, and what ends it."""

from __future__ import annotations

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
    """The last line names the key, the address and the reason, without a traceback."""
    file = tmp_path / "sidecar.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file.write_text(toml(admin_listen=address))
        done = subprocess.run([*COMMAND, file], check=False, capture_output=True, text=True)

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        f"admin_listen {address}: address already in use"
    )
    assert "Traceback" not in done.stderr
