"""Every command has a help, which ends with what people type, and that is what the command takes."""

from __future__ import annotations

import pytest

from coordinator.cli.commands import Commands
from coordinator.cli.examples import EXAMPLES
from tests.cli.conftest import Run


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_ends_with_examples_that_are_right(run: Run, command: str) -> None:
    """Each in a line of its own, with options that the help names."""
    shown = run(command, "--help").stdout
    known = shown + run("--help").stdout

    for example in EXAMPLES[command]:
        assert example in [line.strip() for line in shown.splitlines()]
        words = example.split()
        assert words[0] == "pulsar-quota"
        assert command in words
        assert all(word in known for word in words if word.startswith("--"))


@pytest.mark.parametrize("name", Commands())
def test_every_command_is_there_under_its_name(name: str) -> None:
    """Its help says what it is for."""
    command = Commands()[name]
    assert command.name == name
    assert command.help
