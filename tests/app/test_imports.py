"""A process loads nothing that only others need: its start and its memory are the smaller for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from coordinator.runtime.left_out import DRAWING
from tests.config.nowhere import DOCUMENT

SETTINGS: Final = [
    word
    for key, value in (DOCUMENT | {"bus_token_file": "/nowhere"}).items()
    for word in ("--set", f"{key}={value}")
]

SIDECAR: Final = f"""
from contextlib import suppress
from coordinator.cli.__main__ import main
sys.argv[1:] = ["sidecar", "--config", "/dev/null", *{SETTINGS!r}]
with suppress(SystemExit):
    main()
import admin_api.app, coordinator.adapters.broker.relay, coordinator.app.http.server
"""
"""A sidecar as it is started, with a file missing, and the API that it would have loaded then."""

GATE: Final = """
import socket
from coordinator.gate.process.__main__ import main
(end, its_end), (_, its_liveness) = socket.socketpair(), socket.socketpair()
sys.argv[1:] = [str(each.detach()) for each in (its_end, its_liveness)]
end.close()
main()
"""
"""The gate's process, whose coordinator has ended."""

CLIENT: Final = """
import os, socket
from coordinator.adapters.pulsar.client.__main__ import main
end, its_end = socket.socketpair()
os.dup2(its_end.fileno(), 0)
end.close()
main()
"""
"""The process of the bus's client, whose coordinator has ended."""

LOADED: Final = {
    # They are loaded beside the start of a sidecar.
    "the libraries of the API": (
        "import coordinator.cli.__main__, coordinator.app.sidecar",
        {"fastapi", "uvicorn", "pyarrow", "pyspark"},
    ),
    # None of it takes any of the 120 MB that an idle sidecar may have.
    "what a sidecar that checks no tokens does without": (
        SIDECAR,
        {
            *("admin_api.requests.tokens", "jwt", "pulsar", "pydantic.v1"),
            *("coordinator.native.shell", "coordinator.native.engine.steering"),
            *("coordinator.cli.client", "coordinator.cli.consoles", *DRAWING),
        },
    ),
    # They would be a fifth of a sidecar's start.
    "the other commands": (
        "import coordinator.cli.__main__, coordinator.cli.commands as c; c.Commands()['sidecar']",
        {"coordinator.cli.groups", "coordinator.cli.simulate", "yaml", "httpx", "rich"},
    ),
    # They take longer to load than most commands run.
    "the simulator, the API and Arrow": (
        "import coordinator.cli.__main__",
        {"coordinator.simulation", "fastapi", "pyarrow"},
    ),
    # An idle sidecar has both processes in memory, and its gate opens when both are loaded.
    "what only the coordinator needs": (
        GATE,
        {
            *("coordinator.core.state", "coordinator.runtime.release", "httpx"),
            *("importlib.metadata", "kazoo", "pulsar", *DRAWING),
        },
    ),
    "anything but the library of the bus": (
        CLIENT,
        {
            *("asyncio", "concurrent.futures", "dataclasses", "google.protobuf", "ssl"),
            *("coordinator.core", "coordinator.runtime.logs", "structlog"),
        },
    ),
}


@pytest.mark.parametrize("unneeded", LOADED)
def test_nothing_is_loaded_before_it_is_needed(unneeded: str) -> None:
    """In a process of its own, which has loaded nothing else."""
    statement, modules = LOADED[unneeded]
    told = (
        f"import sys\n{statement}\nprint({{each for each in {modules!r} if sys.modules.get(each)}})"
    )
    done = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True)

    assert done.stdout == "set()\n"
