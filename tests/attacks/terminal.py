"""Terminals that a name could command: a real sidecar's log, and the output of the command."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cli.test_hostile_names import HOSTILE, controls

FORGED = HOSTILE.partition("\n")[2]
"""The line that `HOSTILE` would begin."""

ESCAPED = HOSTILE.partition("\x07")[0].removeprefix("\x1b")
"""The part of `HOSTILE` behind the escape, however that is written."""


class Log:
    """The log of a sidecar and its gate from now on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begins = file.stat().st_size

    def read(self) -> str:
        """All of it."""
        return self._file.read_bytes()[self._begins :].decode("ascii")

    def tells(self) -> bool:
        """Whether `HOSTILE` stands in it, in escapes."""
        said = self.read()
        return f"\\x1b{ESCAPED}" in said or f"\\u001b{ESCAPED}" in said

    def assert_harmless(self) -> None:
        """It has lines of printable letters only, and none of them began in a name."""
        assert_harmless(self.read())


def assert_harmless(said: str) -> None:
    """A terminal shows these lines as they are, and no name has begun one."""
    assert not controls(said), controls(said)
    assert not any(line.startswith(FORGED) for line in said.split("\n"))


def assert_prints_harmless(url: str, *commands: tuple[str, ...]) -> None:
    """Each of these commands prints what is harmless; as many run at once as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for said in threads.map(lambda words: printed(url, *words), commands):
            assert_harmless(said)


def printed(url: str, *words: str, token: str = "") -> str:
    """The output of the command, on both streams, when it asks the sidecar at a URL."""
    done = subprocess.run(
        [sys.executable, "-m", "coordinator.cli", "--api", url, *words],
        capture_output=True,
        timeout=60,
        check=False,
        env=os.environ | {"COLUMNS": "400", "PULSAR_QUOTA_TOKEN": token},
    )
    assert b"Traceback" not in done.stderr
    return (done.stdout + done.stderr).decode()
