"""The reference, made from what there is: configuration, API, metrics, commands and alerts.

cog puts these tables into the pages, and a test fails when a page is not what they say.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import typer.main
import yaml
from prometheus_client.core import Metric

from admin_api.app import create_app
from admin_api.backend import AdminBackend, Backlogs
from admin_api.metrics.native import native_families
from admin_api.metrics.reconciliation import reconciliation_families
from admin_api.metrics.scrape import gather
from admin_api.relay import allowed
from benchmarks.memory_sidecar import memory_sidecar
from coordinator.adapters.clock import MonotonicClock
from coordinator.backlog.rules.guard import BacklogGuard
from coordinator.backlog.rules.monitor import BacklogMonitor
from coordinator.backlog.shell.checker import BacklogWatch
from coordinator.backlog.shell.enforcer import BacklogEnforcement
from coordinator.cli.__main__ import app as command_line
from coordinator.config.reference import keys
from coordinator.insight.model.reconciliation_views import NOT_RECONCILED
from coordinator.native.engine.views import NativeState
from coordinator.runtime.logs import LogLevel
from tests.memory.backlog import MemoryBacklogSource

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yaml"

_PREFIX = "PulsarQuota"
_PLACEHOLDER = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_VALUE = re.compile(r"\{\{ \$value[^}]*\}\}")


def configuration() -> str:
    """Every key: its default, and what it means."""
    rows = [
        (f"`{key.name}`", "must be given" if key.default is None else f"`{key.default}`", key.text)
        for key in keys()
    ]
    return _table(("key", "default", "meaning"), rows)


def api() -> str:
    """Every endpoint by tag, with the first sentence of what it says of itself."""
    by_tag: dict[str, list[tuple[str, str]]] = {}
    for path, methods in create_app(_backend()).openapi()["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["sidecar"])[0]
            text = " ".join(operation["description"].split("\n\n")[0].split())
            by_tag.setdefault(tag, []).append((f"`{method.upper()} {path}`", text))
    return "".join(
        f"\n## {tag.capitalize()}\n{_table(('request', 'what it does'), rows)}"
        for tag, rows in sorted(by_tag.items())
    )


def passed_on() -> str:
    """The requests that go on to the broker."""
    rows = ((", ".join(row.methods), f"`{row.path}`", row.why) for row in allowed.RELAYABLE)
    return _table(("method", "path", "for"), rows)


def metrics() -> str:
    """Every family: its name as Prometheus has it, its type, its labels, and what it tells."""
    families = [
        *asyncio.run(gather(_backend())),
        *native_families(NativeState("native")),
        *reconciliation_families(NOT_RECONCILED),
    ]
    rows = [
        (f"`{_name(family)}`", family.type, ", ".join(_labels(family)), family.documentation)
        for family in sorted(families, key=_name)
    ]
    return _table(("metric", "type", "labels", "meaning"), rows)


def commands() -> str:
    """Every command with its arguments and options."""
    return "".join(_commands(typer.main.get_command(command_line), "pulsar-quota"))


def alerts() -> str:
    """Every alert, and what to do about it."""
    found = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    rows = []
    for rule in (rule for group in found for rule in group["rules"] if "alert" in rule):
        name, notes = rule["alert"].removeprefix(_PREFIX), rule["annotations"]
        rows.append(
            (
                f"**{name}**",
                rule["labels"]["severity"],
                _plain(notes["summary"]),
                _plain(notes["action"]),
            )
        )
    return _table(("alert", "severity", "it says", "what to do"), rows)


def from_readme(heading: str) -> str:
    """The first table below a heading of the README, so that its figures stand in one place."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    below = text.partition(f"## {heading}\n")[2]
    rows = dropwhile(lambda line: not line.startswith("|"), below.splitlines())
    return "\n" + "".join(f"{row}\n" for row in takewhile(lambda line: line.startswith("|"), rows))


def _commands(command: Any, name: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for each, below in sorted(command.commands.items()):
            yield from _commands(below, f"{name} {each}")
        return
    yield f"\n## {name}\n\n{_paragraphs(command.help)}\n"
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    rows = [(_parameter(param), getattr(param, "help", None) or "") for param in shown]
    if rows:
        yield _table(("argument or option", "meaning"), rows)


def _parameter(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{param.name}`" + ("" if param.required else " (optional)")
    return ", ".join(f"`{word}`" for word in (*param.opts, *param.secondary_opts))


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _name(family: Metric) -> str:
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _labels(family: Metric) -> tuple[str, ...]:
    if family.type in ("info", "stateset"):
        return tuple(sorted(family.samples[0].labels))
    # A family without a sample knows its labels all the same, but has no public word for them.
    return tuple(getattr(family, "_labelnames", ()))


def _plain(text: str) -> str:
    """A template's text with the names of what it puts in."""
    return _VALUE.sub("*N*", _PLACEHOLDER.sub(r"*\1*", text))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    cells = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines)
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in cells)


def _backend() -> AdminBackend:
    """Return a backend for an API and its metrics; nothing of it is started."""
    sidecar = memory_sidecar(LogLevel("info"), delayed_group="late")
    source = MemoryBacklogSource()
    clock = MonotonicClock()
    watch = BacklogWatch(source, BacklogMonitor(), clock=clock, wall_ms=lambda: 0)
    guard = BacklogGuard({})
    enforcement = BacklogEnforcement(
        watch, guard, source, sidecar.gate, clock=clock, wall_ms=lambda: 0
    )
    return replace(sidecar.backend, backlogs=Backlogs(watch, enforcement))
