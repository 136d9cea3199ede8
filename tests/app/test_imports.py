"""A process loads nothing that only others need: its start and its memory are the smaller for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = {
    # They are loaded beside the start of a sidecar.
    "the libraries of the API": (
        "import coordinator.cli.__main__, coordinator.app.sidecar",
        {"fastapi", "uvicorn", "pyarrow", "pyspark"},
    ),
    # Unused code takes none of the 120 MB that an idle sidecar may have.
    "the library of tokens, where none is checked": (
        (
            "import admin_api.app, coordinator.cli.__main__, coordinator.app.http.server, "
            "coordinator.app.sidecar"
        ),
        {"jwt", "admin_api.requests.tokens"},
    ),
    # They would be a fifth of a sidecar's start.
    "the other commands": (
        "import coordinator.cli.__main__, coordinator.cli.commands as c; c.Commands()['sidecar']",
        {"coordinator.cli.groups", "coordinator.cli.simulate", "yaml"},
    ),
    # They take longer to load than most commands run.
    "the simulator, the API and Arrow": (
        "import coordinator.cli.__main__",
        {"coordinator.simulation", "fastapi", "pyarrow"},
    ),
    # An idle sidecar has both processes in memory, and its gate opens when both are loaded.
    "what only the coordinator needs": (
        "import coordinator.gate.process.server",
        {
            *("coordinator.core.state", "coordinator.runtime.release", "httpx"),
            *("importlib.metadata", "kazoo", "pulsar"),
        },
    ),
}


@pytest.mark.parametrize("unneeded", LOADED)
def test_nothing_is_loaded_before_it_is_needed(unneeded: str) -> None:
    """In a process of its own, which has loaded nothing else."""
    statement, modules = LOADED[unneeded]
    told = f"import sys\n{statement}\nprint({modules!r} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True)

    assert done.stdout == "set()\n"
