"""The page of the code is true of the code: its rooms, and every name that it leads to."""

from __future__ import annotations

import importlib
import itertools
import re
from functools import reduce
from pathlib import Path

import pytest

from benchmarks.pages import rooms

PAGE = Path(__file__).parents[2] / "docs" / "code.md"
STEP = re.compile(r"^\| (\d+) \|.*\| `([\w.]+)(?::([\w.]+))?` \|$", re.MULTILINE)
STEPS = STEP.findall(PAGE.read_text(encoding="utf-8"))
MOST_STEPS = 12


@pytest.mark.parametrize(("module", "name"), [step[1:] for step in STEPS])
def test_every_step_names_what_there_is(module: str, name: str) -> None:
    """A step leads to a module, or to a class or function of it."""
    found: object = importlib.import_module(module)
    assert reduce(getattr, name.split(".") if name else [], found)


def test_each_thing_takes_at_most_twelve_steps() -> None:
    """Numbered from 1 on; four are followed."""
    numbers = [int(step[0]) for step in STEPS]
    assert numbers.count(1) == 4
    assert max(numbers) <= MOST_STEPS
    for before, number in itertools.pairwise(numbers):
        assert number in {before + 1, 1}


def test_a_room_stands_above_all_that_it_imports() -> None:
    """The core imports no other room."""
    of_rooms = rooms.imports()
    level = rooms.levels(of_rooms)
    assert level["coordinator.core"] == 0
    assert all(level[room] > level[other] for room in of_rooms for other in of_rooms[room])


def test_the_picture_leaves_out_what_a_chain_implies() -> None:
    """Of a -> b -> c and a -> c the last one is implied."""
    of_rooms = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset[str]()}
    drawn = rooms.without_implied(of_rooms)
    assert drawn == {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset()}
