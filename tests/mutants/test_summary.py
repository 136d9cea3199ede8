"""The words of ``make mutants``: where a mistake is that no test notices, and how many are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.summary import Mutation, drawn, path_of, pattern_of, read_diff, summary

SOURCE = """\
def first(a):
    if a:
        return 1
    return 0


class Second:
    def value(self, a):
        if a:
            return 1
        return 0
"""

DIFF = """\
# coordinator.core.x.xǁSecondǁvalue__mutmut_2: survived
--- x.py
+++ x.py
@@ -1,4 +1,4 @@
 def value(self, a):
     if a:
-        return 1
+        return 2
     return 0
"""

PLACE = Path("x.py")


def test_a_mutation_is_found_at_its_line_although_another_function_has_the_same() -> None:
    """The diff counts from the head of its function."""
    name = "coordinator.core.x.xǁSecondǁvalue__mutmut_2"

    assert read_diff(PLACE, SOURCE, name, DIFF) == Mutation(PLACE, 10, "return 1", "return 2")


def test_a_function_is_found_like_a_method() -> None:
    """Its name has another mark."""
    diff = DIFF.replace("value(self, a)", "first(a)")

    found = read_diff(PLACE, SOURCE, "coordinator.core.x.x_first__mutmut_2", diff)

    assert found.line == 3


def test_a_diff_of_another_module_is_refused() -> None:
    """The sources have changed since the mutants were made."""
    with pytest.raises(ValueError, match=r"x\.py has no such line: return 1"):
        read_diff(PLACE, "def value():\n    pass\n", "a.xǁSecondǁvalue__mutmut_2", DIFF)


def test_a_part_is_a_folder_or_a_module() -> None:
    """As its path is typed, with a slash at the end or without."""
    assert pattern_of("coordinator/core/allocation/") == "coordinator.core.allocation.*"
    assert pattern_of("coordinator/core/state.py") == "coordinator.core.state.*"


def test_a_mutant_of_a_package_is_in_its_init() -> None:
    """A module is a file of its own."""
    laws = "coordinator.core.allocation.laws"

    assert path_of(f"{laws}.x_any__mutmut_1") == Path(
        "coordinator/core/allocation/laws/__init__.py"
    )
    assert path_of(f"{laws}.joint.x_any__mutmut_1").name == "joint.py"


def test_a_seed_draws_the_same_mutants_again() -> None:
    """Their order does not matter; of few, all are drawn."""
    names = [f"m{number}" for number in range(100)]

    assert drawn(names, 10, seed=1) == drawn(reversed(names), 10, seed=1)
    assert drawn(names, 10, seed=1) != drawn(names, 10, seed=2)
    assert len(set(drawn(names, 10, seed=1))) == 10
    assert drawn(names, 100, seed=1) == sorted(names)


def test_the_summary_names_each_mistake_that_no_test_noticed() -> None:
    """By file and line, the counts last; a test that runs for ever has noticed one, too."""
    outcomes = {"a": "killed", "b": "survived", "c": "timeout", "d": "no tests"}
    places = {
        "b": Mutation(PLACE, 9, "a < b", "a <= b"),
        "d": Mutation(PLACE, 3, "return 1", ""),
    }

    assert summary(outcomes, places.__getitem__) == [
        "x.py:3: no tests: return 1 -> nothing",
        "x.py:9: survived: a < b -> a <= b",
        "4 mutants: 1 killed, 1 survived, 1 timeout, 1 no tests; 50.0 % noticed",
    ]
