"""Start this very Python again, for a process that a sidecar owns."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def command(*program: str) -> list[str]:
    """Return the command that runs a program, such as ``-m package``, by this interpreter."""
    # -P: nothing is imported from the folder where this process was started.
    return [sys.executable, "-P", *program]


def environment() -> dict[str, str]:
    """Return this process's environment, by which another one finds modules where this one does."""
    places = os.pathsep.join(str(Path(place).absolute()) for place in sys.path)
    return os.environ | {"PYTHONPATH": places}
