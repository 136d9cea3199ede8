"""Libraries that another library loads if it finds them, and that a process of ours never uses.

Each of our processes is in memory beside every broker, and loading takes most of its start. structlog
and httpx load rich, to draw tracebacks and for a command of their own; FastAPI loads Pydantic's first
version, to refuse its models; Pulsar's client loads Protocol Buffers, for schemas. All of them do
without where the library is not installed, and so they do in a process that leaves it out.
"""

from __future__ import annotations

import sys
from typing import Final

DRAWING: Final = ("rich", "pygments", "colorama")
"""Of structlog and httpx: what draws on a terminal. Our log is JSON."""


def leave_out(*modules: str) -> None:
    """Let every later import of these modules fail in this process, as if they were not installed.

    To be called before the libraries that would load them are. A module that is loaded stays.
    """
    for module in modules:
        # Python's own sign for it: "If the value is None, then a ModuleNotFoundError is raised".
        sys.modules.setdefault(module, None)  # type: ignore[arg-type]
