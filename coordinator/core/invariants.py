"""Statements about the core that hold after every event: a broken one is a bug in the core.

Each part of the core checks its own (``validate``); ``CoordinatorState.validate`` asks them all. The
checks only read, and no decision depends on them: a sidecar runs without them unless its configuration
sets ``check_invariants``. Every test that drives a core, the simulator and chaos run with them.
"""

from __future__ import annotations


class InvariantBroken(Exception):
    """A statement about the core does not hold.

    Args:
        invariant: the statement that does not hold, as a sentence.
        figures: the values that contradict it, by name.
    """

    def __init__(self, invariant: str, **figures: object) -> None:
        self.invariant = invariant
        self.figures = figures
        values = ", ".join(f"{name} {value}" for name, value in figures.items())
        super().__init__(f"{invariant} ({values})" if values else invariant)


def holds(condition: bool, invariant: str, **figures: object) -> None:  # noqa: FBT001
    """Do nothing if the condition is true.

    Raises:
        InvariantBroken: it is false.
    """
    if not condition:
        raise InvariantBroken(invariant, **figures)
