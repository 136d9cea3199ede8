"""A sidecar with two faults, for the test of the checker that must find them.

Run as a program in place of ``-m coordinator.cli``: the rest of the command line is the sidecar's own.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from coordinator.cli import sidecar
from coordinator.cli.__main__ import main
from coordinator.core.decisions import booked
from coordinator.gate.process.spawning import spawned


def lose_a_send() -> None:
    """The gate is one that drops a SEND (planted_gate.py)."""
    program = (str(Path(__file__).with_name("planted_gate.py")),)
    vars(sidecar)["spawned"] = partial(spawned, program)


def raise_without_a_grant() -> None:
    """Every broker of a strict group takes half of the limit, whatever its books say."""
    vars(booked)["limit_of"] = lambda _parts, limit: limit // 2


if __name__ == "__main__":
    lose_a_send()
    raise_without_a_grant()
    main()
