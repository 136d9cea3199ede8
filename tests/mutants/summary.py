"""The selection of mutants, and the words of a summary."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NOTICED = ("killed", "timeout", "segfault")
"""Outcomes of a mutant that some test noticed."""

_HUNK = re.compile(r"@@ -(\d+)")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mistake in the source.

    Args:
        path: the module.
        line: of the module.
        before: the line as it is.
        after: the line with the mistake; empty if the mistake removes it.
    """

    path: Path
    line: int
    before: str
    after: str


def pattern_of(part: str) -> str:
    """Return the pattern of the names of a folder's or a module's mutants."""
    return part.strip("/").removesuffix(".py").replace("/", ".") + ".*"


def path_of(name: str) -> Path:
    """Return the module of a mutant, which may be the ``__init__`` of a package."""
    module = Path(*name.rpartition(".")[0].split("."))
    package = module / "__init__.py"
    return package if package.exists() else module.with_suffix(".py")


def drawn(names: Iterable[str], size: int, seed: int) -> list[str]:
    """Draw mutants, each equally likely; all of them if there are no more than ``size``."""
    known = sorted(names)
    if len(known) <= size:
        return known
    return sorted(random.Random(seed).sample(known, size))


def read_diff(path: Path, source: str, name: str, diff: str) -> Mutation:
    """Read a mutation out of the diff of its function.

    Args:
        path: the module.
        source: its text.
        name: the mutant's.
        diff: as ``mutmut show`` prints it; its lines are counted from the head of the function.

    Raises:
        ValueError: the diff changes no line, or none of this module.
    """
    function = re.split(r"ǁ|\.x_|__mutmut_", name)[-2]
    lines = source.splitlines()
    expected, before, after = 0, "", ""
    for line in diff.splitlines():
        if line.startswith(("---", "+++")):
            continue
        if hunk := _HUNK.match(line):
            expected = int(hunk[1]) - 1
        elif line.startswith("-") and not before:
            before = line[1:].strip()
        elif line.startswith("+") and not after:
            after = line[1:].strip()
        elif not before:
            expected += 1
    if not before:
        raise ValueError(f"{name}: the diff removes no line")
    heads = [n for n, text in enumerate(lines) if re.match(rf"\s*(async )?def {function}\b", text)]
    places = [n for n, text in enumerate(lines) if text.strip() == before]
    if not heads or not places:
        raise ValueError(f"{name}: {path} has no such line: {before}")
    nearest = min(places, key=lambda n: min(abs(n - head - expected) for head in heads))
    return Mutation(path, nearest + 1, before, after)


def summary(outcomes: Mapping[str, str], read: Callable[[str], Mutation]) -> Sequence[str]:
    """Return a line for each mutant that no test noticed, and the count of each outcome.

    Args:
        outcomes: of each mutant that was tried, by name.
        read: says where a mutant is.
    """
    unnoticed = sorted(
        ((read(name), outcome) for name, outcome in outcomes.items() if outcome not in NOTICED),
        key=lambda each: (each[0].path, each[0].line),
    )
    lines = [
        f"{each.path}:{each.line}: {outcome}: {each.before} -> {each.after or 'nothing'}"
        for each, outcome in unnoticed
    ]
    counted = Counter(outcomes.values())
    noticed = sum(counted[outcome] for outcome in NOTICED)
    share = 100 * noticed / len(outcomes) if outcomes else 0.0
    each_kind = ", ".join(f"{count} {outcome}" for outcome, count in counted.most_common())
    return [*lines, f"{len(outcomes)} mutants: {each_kind}; {share:.1f} % noticed"]
