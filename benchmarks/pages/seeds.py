"""The evidence page: each row of the source documents, and the tests that show it.

The rows are data (tests/seeds/rows.toml). A test says which rows it shows with the mark ``shows``, and
may tell what it measured with the fixture ``figure``; ``python -m benchmarks.pages seeds FILE`` takes
these figures from what ``make verify`` has written. Tests are read as text, never imported.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
ROWS: Final = ROOT / "tests" / "seeds" / "rows.toml"
FIGURES: Final = ROOT / "docs" / "figures" / "seeds.json"

FIGURES_MAX: Final = 4
"""The most figures of one row."""

_MARK: Final = "shows"
_REAL: Final = "cluster"
_MEASURED: Final = "verify"
_EXACT: Final = "exact"


@dataclass(frozen=True, slots=True)
class Row:
    """One sentence of a source document.

    Args:
        key: document and row, as marks name it.
        title: of the document.
        says: the sentence.
        reason: why no test shows it on a real cluster; empty where one does.
    """

    key: str
    title: str
    says: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A test that shows a row.

    Args:
        path: of its module, below the root of the project.
        test: its name.
        is_real: whether it runs against a real cluster.
        is_measured: whether `make verify` runs it; `make test` runs the others, which are exact.
    """

    path: str
    test: str
    is_real: bool
    is_measured: bool = False


@cache
def rows() -> tuple[Row, ...]:
    """Return all rows, in the order of the documents."""
    documents = tomllib.loads(ROWS.read_text(encoding="utf-8"))
    return tuple(
        Row(f"{name}/{key}", document["title"], row["says"], row.get("reason", ""))
        for name, document in documents.items()
        for key, row in document["rows"].items()
    )


@cache
def evidence() -> Mapping[str, tuple[Evidence, ...]]:
    """Return the tests of each row that a mark names, those on a real cluster first."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if f".{_MARK}(" in text:
            for key, each in evidence_in(text, str(path.relative_to(ROOT))):
                found[key].append(each)
    return {
        key: tuple(sorted(each, key=lambda one: not one.is_real)) for key, each in found.items()
    }


def evidence_in(source: str, path: str) -> Iterator[tuple[str, Evidence]]:
    """Yield the rows that the tests of a module show."""
    module = ast.parse(source)
    everywhere = {
        name
        for node in module.body
        if isinstance(node, ast.Assign)
        and any(isinstance(each, ast.Name) and each.id == "pytestmark" for each in node.targets)
        for name in _names(node.value)
    }
    for node in module.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = everywhere.union(*map(_names, node.decorator_list))
        for decorator in node.decorator_list:
            for key, says_so in _shown(decorator):
                is_real = says_so or _REAL in names
                yield key, Evidence(path, node.name, is_real, _MEASURED in names)


def _shown(decorator: ast.expr) -> Iterator[tuple[str, bool]]:
    """Yield the rows of a mark; a test with ``real=True`` runs over memory and a real service."""
    if not isinstance(decorator, ast.Call) or _MARK not in _names(decorator.func):
        return
    is_real = any(each.arg == "real" for each in decorator.keywords)
    for argument in decorator.args:
        yield ast.literal_eval(argument), is_real


def _names(node: ast.expr) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def page() -> str:
    """Return a table for each document."""
    figures: Mapping[str, str] = json.loads(FIGURES.read_text(encoding="utf-8"))
    found = evidence()
    lines = []
    title = ""
    for row in rows():
        if row.title != title:
            title = row.title
            lines += ["", f"## {title}", "", "| row | it says | shown by | where | figure |"]
            lines += ["| --- | --- | --- | --- | --- |"]
        lines.append(_line(row, found.get(row.key, ()), figures.get(row.key, "")))
    return "\n".join([*lines, ""])


def _line(row: Row, tests: tuple[Evidence, ...], figure: str) -> str:
    real = [each for each in tests if each.is_real]
    shown = [f"`{each.path.removeprefix('tests/')}::{each.test}`" for each in real or tests]
    where = "real cluster" if real else "in memory" if tests else "not tested"
    if row.reason and not real:
        where = f"{where}. {row.reason}"
    if not figure and any(not each.is_measured for each in real):
        figure = _EXACT
    cells = (row.key.partition("/")[2], row.says, " ".join(shown) or "-", where, figure or "-")
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def summary() -> str:
    """Return the number of rows, by where they are shown."""
    real = sum(any(each.is_real for each in evidence().get(row.key, ())) for row in rows())
    return (
        f"\n{len(rows())} rows: {real} shown on a real cluster, {len(rows()) - real} with a reason "
        "why not.\n"
    )


def take(report: Path) -> int:
    """Keep the figures of a measurement beside those that it does not have; return their number.

    A row of which no test says something has what was measured by the tests that show it.

    Args:
        report: what `python -m tests.verify` has written.

    Raises:
        ValueError: a figure is of a row that does not exist.
    """
    measurement = json.loads(report.read_text(encoding="utf-8"))
    told: dict[str, str] = measurement["figures"]
    known = [row.key for row in rows()]
    if unknown := sorted(told.keys() - set(known)):
        raise ValueError(f"{report}: no row is called {unknown[0]!r}")
    measured = {key: text for key in known if (text := _measured(key, measurement["rooms"]))}
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) | measured | told
    FIGURES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return len(measured | told)


def _measured(key: str, rooms: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return what the tests of a row have measured, in words; empty where none holds."""
    tests = {f"{each.path}::{each.test}" for each in evidence().get(key, ()) if each.is_measured}
    rows_of = [row for each in rooms.values() for row in each]
    missed = {row["test"] for row in rows_of if row["verdict"] != "held"}
    held = [
        row
        for row in rows_of
        if row["test"].partition("[")[0] in tests and row["test"] not in missed
    ]
    named = [
        f"{row['name']} {row['value']:,.4g} {row.get('unit', '')}".strip()
        for row in held
        if "name" in row
    ]
    return "; ".join(named[:FIGURES_MAX]) or ("holds" if held else "")
