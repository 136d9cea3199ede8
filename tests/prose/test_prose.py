"""Sentences say who does what.

A docstring that begins with a free relative ("What is ...", "How long ...") names no thing, words like
"somebody" hide the one who acts, and "so many" hides a number that has a name. All are refused in
docstrings, comments, messages and pages, and so is a docstring that begins in the middle of a sentence
("And ...", "Not ..."). A variable, class or function is not called ``nobody`` or the like either.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HELD = (
    *("admin_api", "benchmarks", "coordinator", "deploy", "spark_jobs"),
    *sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").iterdir()
        if path.name != "__pycache__"
    ),
)
"""Folders and files of code whose words are held to this."""

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")),
)

_VAGUE = re.compile(
    r"\b(?:(?:[Aa]ny|[Ee]very|[Nn]o|[Ss]ome)body|[Ss]omeone|[Nn]o one(?!-)|[Ww]hoever"
    r"|[Ss]o many|[Ss]o much)\b"
)
_VAGUE_NAME = re.compile(r"_*(?:any|every|no|some)body_*", re.IGNORECASE)
_FREE_RELATIVE = re.compile(r"(?:What(?! if:)|Whatever|Who|Whose|Whom|How)\s(?![^.]*\?)")
_FRAGMENT = re.compile(r"(?:And|Or|But|Nor|So that|Also|Which|Whichever|Not)\s(?![^.]*\?)")
_NOT_PROSE = re.compile(
    r"^```.*?^```$|<!-- \[\[\[cog.*?\[\[\[end\]\]\] -->|`[^`\n]*`", re.MULTILINE | re.DOTALL
)
_THIS = Path(__file__).resolve()


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each fault in a module."""
    for node in documented(ast.parse(source)):
        for line, text in docstrings(node):
            if _FREE_RELATIVE.match(text) or _FRAGMENT.match(text):
                yield line, text.splitlines()[0]
    if not (_VAGUE.search(source) or _VAGUE_NAME.search(source)):
        return  # no token has such a word: most modules need not be taken apart
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and _VAGUE_NAME.fullmatch(token.string):
            yield token.start[0], token.string
        # A string without a space is a name, not a sentence.
        if token.type in (tokenize.COMMENT, tokenize.STRING, _F_STRING) and " " in token.string:
            yield from vague(token.string, token.start[0])


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documented(module: ast.Module) -> Iterator[_Documented]:
    """Yield the module, its classes and its functions; no expression, which are most of it, has one."""
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Documented):
            yield node
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]


def docstrings(node: _Documented) -> Iterator[tuple[int, str]]:
    """Yield the docstring, and those of a module's or a class's attributes, with their lines."""
    for statement in node.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            yield statement.lineno, str(statement.value.value)


_F_STRING = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)


def vague(text: str, first_line: int = 1) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each vague word in a text."""
    for number, line in enumerate(text.splitlines(), start=first_line):
        if _VAGUE.search(line):
            yield number, line.strip()


def modules(place: Path) -> list[Path]:
    """Return the modules of a folder, or the module itself."""
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


@pytest.mark.parametrize("folder", HELD)
def test_docstrings_comments_and_messages_say_who_does_what(folder: str) -> None:
    """In every module of the folders that are held to it."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words}"
        for path in modules(ROOT / folder)
        if path != _THIS
        for line, words in faults(path.read_text(encoding="utf-8"))
    ]

    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES)
def test_pages_say_who_does_what(page: str) -> None:
    """Samples are not read, nor parts that are made from code, which is read itself."""
    text = (ROOT / page).read_text(encoding="utf-8")
    # Lines stay where they are, so that a fault is found by its number.
    prose = _NOT_PROSE.sub(lambda found: "\n" * found[0].count("\n"), text)
    found = [f"{page}:{line}: {words}" for line, words in vague(prose)]

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        '"""What is in force."""',
        '"""And nothing changes."""',
        'def f():\n    """How long it takes."""',
        'x = 1\n"""How long it takes."""',
        "x = 1  # somebody waits",
        'raise ValueError("nobody answers")',
        'x = f"whoever waits for {y}"',
        '"""Takes so much."""',
        "x = 1  # after so many seconds",
        'raise ValueError("no one answers")',
        '"""Everybody waits."""',
        "class Nobody: pass",
        "everybody = 1",
    ],
)
def test_a_bad_habit_is_found(source: str) -> None:
    """In a docstring, a comment and a message."""
    assert list(faults(source))


@pytest.mark.parametrize(
    "source",
    [
        '"""What if: a question?"""',
        'name = "nobody"',
        "def test_nobody_waits(): pass",
        "x = 1  # no one-second window",
        '"""Return the limit; what it costs."""',
    ],
)
def test_a_question_and_a_name_are_no_fault(source: str) -> None:
    """A free relative inside a sentence is none either."""
    assert not list(faults(source))
