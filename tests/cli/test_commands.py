"""A command is loaded when it is called."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coordinator.cli.commands import Commands

LOADED = """
import sys
import coordinator.cli.__main__
from coordinator.cli.commands import Commands
Commands()["sidecar"]
others = ("coordinator.cli.groups", "coordinator.cli.simulate", "yaml")
print([name for name in others if name in sys.modules])
"""


def test_a_sidecar_does_not_load_the_other_commands() -> None:
    """They would be a fifth of its start."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], check=True, capture_output=True, text=True
    )

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", Commands())
def test_every_command_is_there_under_its_name(name: str) -> None:
    """Its help says what it is for."""
    command = Commands()[name]
    assert command.name == name
    assert command.help
