"""The commands by name, each of which is loaded when it is called.

Loading them all takes longer than loading a sidecar, and neither the start of a sidecar nor a question to
one should wait for it. Only a help text that lists all commands needs all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

import typer

from coordinator.cli.examples import EXAMPLES, epilog

_PLACES: Final[Mapping[str, str]] = {
    "groups": "groups:app",
    "audit": "audit:app",
    "config": "configuration:app",
    "import": "files:import_groups",
    "operations": "operations:operations",
    "conditions": "status:conditions",
    "log-level": "status:log_level",
    "status": "status:status",
    "top": "top:top",
    "explain": "explain:explain",
    "doctor": "doctor:doctor",
    "native": "native:app",
    "sidecar": "sidecar:sidecar",
    "report": "spark:report",
    "rollup": "spark:rollup",
    "advise": "spark:advise",
    "what-if": "spark:what_if",
    "showback": "spark:showback",
    "simulate": "simulate:simulate",
}
"""The commands in the order of the help text: a module of this package, and a function or group in it."""


class Commands(Mapping[str, Any]):
    """The commands by name, as the parser needs them."""

    def __getitem__(self, name: str) -> Any:
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


@cache
def _load(name: str) -> Any:
    module, _, what = _PLACES[name].partition(":")
    found = getattr(import_module(f"coordinator.cli.{module}"), what)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False)
    alone.command(name, epilog=epilog(name) if name in EXAMPLES else None)(found)
    return typer.main.get_command(alone)
