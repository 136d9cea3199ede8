"""Each domain word has one row and one place in the glossary, and each class name one meaning."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("admin_api", "benchmarks", "coordinator", "deploy", "spark_jobs")
SHARED: dict[str, str] = {}
"""Class names that several modules share, with the reason."""

_ROW = re.compile(
    r"^\| (?P<word>[^|]+) \| (?P<meaning>[^|]+) \| `(?P<place>[\w.]+)` \|$", re.MULTILINE
)


def rows() -> list[tuple[str, str, str]]:
    """Return the glossary's rows: word, meaning, place."""
    found = _ROW.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    return [(word, meaning, place) for word, meaning, place in found]


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def names_in(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Return the names that a module's or a class's body defines, with the body of each."""
    names: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = node.body if isinstance(node, ast.ClassDef) else []
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = []
        elif isinstance(node, ast.Assign):
            names |= {target.id: [] for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            names |= {name: [] for name in _set_on_self(node)}
    return names


def _set_on_self(node: ast.FunctionDef) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            yield each.attr


def exists(place: str) -> bool:
    """Return whether a package, a module, or a name in a module exists."""
    parts = place.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        rest = parts[length:]
        if path.is_dir() and not rest:
            return (path / "__init__.py").exists()
        if path.with_suffix(".py").exists():
            names = names_in(parsed(path.with_suffix(".py")).body)
            for name in rest:
                if name not in names:
                    return False
                names = names_in(names[name])
            return True
    return False


def classes() -> dict[str, list[str]]:
    """Return the modules of each public class name."""
    found = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_stands_for_one_thing() -> None:
    """Only the listed names occur in two modules, and each of them still does."""
    twice = {name: modules for name, modules in classes().items() if len(modules) > 1}

    assert not {name: modules for name, modules in twice.items() if name not in SHARED}
    assert not SHARED.keys() - twice.keys(), "remove these names from SHARED: each has one meaning"


def test_a_word_is_explained_once() -> None:
    """No word has two rows, whatever its case."""
    counts = Counter(word.lower() for word, _, _ in rows())

    assert counts
    assert not [word for word, count in counts.items() if count > 1]


def test_every_row_of_the_glossary_is_complete() -> None:
    """A row has a word, one sentence and a place; a malformed row would hide from the other tests."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    heads = [line for line in lines if line == "| Word | Meaning | Place |"]

    assert len(rows()) == len(lines) - len(heads)
    assert not [word for word, meaning, _ in rows() if meaning.count(". ") or meaning[-1] != "."]


@pytest.mark.parametrize(("word", "place"), [(word, place) for word, _, place in rows()])
def test_the_place_of_a_word_exists(word: str, place: str) -> None:
    """The class, field or package carries the word."""
    assert exists(place), f"{word}: there is no {place}"


@pytest.mark.parametrize(
    "place",
    [
        "coordinator.core.model.Nothing",
        "coordinator.core.model.ResourceGroup.nothing",
        "coordinator.nothing",
        "nothing",
    ],
)
def test_a_place_that_is_gone_is_found(place: str) -> None:
    """A class, a field, a module and a package can be gone."""
    assert not exists(place)
