"""The rooms of the code, read from the code: each with its purpose and the rooms that it imports.

A *room* is a package of the coordinator, or one of the packages beside it. It is drawn one level above
the highest room that it imports. An import that a chain of others implies is not drawn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import grimp
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from benchmarks.pages.look import BROKERS, Look

COORDINATOR: Final = "coordinator"
BESIDE: Final = ("admin_api", "deploy", "spark_jobs")

Imports = Mapping[str, frozenset[str]]
"""Room to the rooms that it imports."""

_WIDTH, _HEIGHT = 1.0, 0.5


@cache
def imports() -> Imports:
    """Return the direct imports between rooms."""
    graph = grimp.build_graph(COORDINATOR, *BESIDE)
    rooms = (*sorted(graph.find_children(COORDINATOR)), *BESIDE)
    inside = {room: {room} | graph.find_descendants(room) for room in rooms}
    room_of = {module: room for room, modules in inside.items() for module in modules}
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for module, room in room_of.items():
        for imported in graph.find_modules_directly_imported_by(module):
            other = room_of.get(imported, room)
            if other != room:
                found[room].add(other)
    return {room: frozenset(others) for room, others in found.items()}


def levels(of_rooms: Imports) -> dict[str, int]:
    """Return each room's level: 0 for those that import no other one."""
    known: dict[str, int] = {}

    def level(room: str) -> int:
        if room not in known:
            known[room] = 1 + max(map(level, of_rooms[room]), default=-1)
        return known[room]

    for room in of_rooms:
        level(room)
    return known


def without_implied(of_rooms: Imports) -> dict[str, frozenset[str]]:
    """Return the imports that no chain of others implies."""

    @cache
    def below(room: str) -> frozenset[str]:
        return of_rooms[room].union(*map(below, of_rooms[room]))

    return {room: others.difference(*map(below, others)) for room, others in of_rooms.items()}


def table() -> str:
    """Return the rooms, highest first, as a table of the page."""
    of_rooms = imports()
    level = levels(of_rooms)
    lines = ["", "| room | what it is | imports |", "| --- | --- | --- |"]
    for room in sorted(of_rooms, key=lambda each: (-level[each], each)):
        others = sorted(map(_shown, of_rooms[room]), key=str.lower)
        lines.append(f"| `{_shown(room)}` | {_about(room)} | {', '.join(others) or '-'} |")
    return "\n".join([*lines, ""])


def picture(look: Look) -> Figure:
    """The rooms by level, with an arrow to each that a room builds on directly."""
    of_rooms = imports()
    places = dict(_places(of_rooms))
    figure, axes = plt.subplots(figsize=(8, 6.4))
    for room, others in without_implied(of_rooms).items():
        x, y = places[room]
        for other in sorted(others):
            to_x, to_y = places[other]
            axes.annotate(
                "",
                (to_x, to_y + _HEIGHT / 2),
                (x, y - _HEIGHT / 2),
                arrowprops={"arrowstyle": "->", "color": look.faint, "linewidth": 0.8},
            )
    for room, (x, y) in places.items():
        colour = BROKERS[1] if room in BESIDE else BROKERS[0]
        box = {"boxstyle": "round,pad=0.4", "facecolor": look.paper, "edgecolor": colour}
        axes.text(x, y, _shown(room), ha="center", va="center", fontsize=9, bbox=box)
    across = [x for x, _ in places.values()]
    axes.set_xlim(min(across) - _WIDTH, max(across) + _WIDTH)
    axes.set_ylim(-_HEIGHT, max(y for _, y in places.values()) + _HEIGHT)
    axes.axis("off")
    return figure


def _places(of_rooms: Imports) -> Iterator[tuple[str, tuple[float, float]]]:
    rows: dict[int, list[str]] = {}
    for room, level in sorted(levels(of_rooms).items()):
        rows.setdefault(level, []).append(room)
    for level, row in rows.items():
        # Every other row stands aside, so that arrows between single rooms are not one line.
        aside = 0.35 if level % 2 else -0.35
        for number, room in enumerate(row):
            yield room, ((number - (len(row) - 1) / 2) * 1.7 + aside, float(level))


def _shown(room: str) -> str:
    return room.removeprefix(f"{COORDINATOR}.")


def _about(room: str) -> str:
    spec = find_spec(room)
    assert spec is not None
    assert spec.origin is not None
    words = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return words.partition("\n")[0].replace("``", "`")
