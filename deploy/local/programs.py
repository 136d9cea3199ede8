"""Processes beside a cluster's servers, sidecars and load: started, watched and stopped by pid.

They are written down in ``programs.json`` as they start, so that a later command, as after
``KEEP=1``, can stop them; a pid is never believed without the moment at which it was started.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from deploy.local import processes
from deploy.local.errors import LocalClusterError
from deploy.local.processes import ProcessIdentity

_STOP_GRACE_S = 15.0
_FILE = "programs.json"


class Programs:
    """The running programs of one directory, by name; their logs are ``NAME.log`` in it."""

    def __init__(self, directory: Path) -> None:
        """Take a directory; nothing is started yet."""
        self._directory = directory
        self._running: dict[str, ProcessIdentity] = {}

    @classmethod
    def left_in(cls, directory: Path) -> Self:
        """Return what an earlier command has left running from this directory."""
        found = cls(directory)
        if (directory / _FILE).exists():
            entries = json.loads((directory / _FILE).read_text())
            known = {name: ProcessIdentity(**entry) for name, entry in entries.items()}
            found._running = {name: p for name, p in known.items() if processes.is_alive(p)}
        return found

    @property
    def any(self) -> bool:
        """Whether any program runs."""
        return bool(self._running)

    def log_file(self, name: str) -> Path:
        """Return where a program's output goes."""
        return self._directory / f"{name}.log"

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a program.

        Raises:
            LocalClusterError: it cannot be started.
        """
        assert name not in self._running
        self._running[name] = processes.start(command, self.log_file(name), self._directory)
        self._write()

    def check(self) -> None:
        """See that everything that was started still runs.

        Raises:
            LocalClusterError: something ended by itself; the text has the end of its log.
        """
        for name, process in self._running.items():
            if not processes.is_alive(process):
                log = self.log_file(name)
                raise LocalClusterError(f"{name} ended by itself ({log}):\n{processes.tail(log)}")

    def process(self, name: str) -> ProcessIdentity:
        """Return the process of a running program."""
        return self._running[name]

    def release(self, name: str) -> ProcessIdentity:
        """Watch a program no longer, as its end is the caller's; return its process."""
        process = self._running.pop(name)
        self._write()
        return process

    def end(self, name: str, grace_s: float = _STOP_GRACE_S) -> None:
        """End one program and wait for it: SIGTERM, and SIGKILL if it is deaf for so long."""
        processes.stop_all([self.release(name)], grace_s)

    def stop(self) -> None:
        """End all programs and wait for them: SIGTERM, and SIGKILL for what is deaf."""
        processes.stop_all(list(self._running.values()), _STOP_GRACE_S)
        self._running.clear()
        (self._directory / _FILE).unlink(missing_ok=True)

    def _write(self) -> None:
        entries = {name: dataclasses.asdict(process) for name, process in self._running.items()}
        partial = self._directory / f"{_FILE}.part"
        partial.write_text(json.dumps(entries) + "\n")
        partial.rename(self._directory / _FILE)
