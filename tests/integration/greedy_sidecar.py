"""A sidecar that takes every group's whole limit and says so, for the test of what that does to others.

Run as a program in place of ``-m coordinator.cli``: the rest of the command line is the sidecar's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coordinator.cli.__main__ import main
from coordinator.core.decider import Decider
from coordinator.core.decision import Decision


def take_everything() -> None:
    """Take all of the limit; explanations still tell the decision of law and policy."""
    transfer = Decider._transfer

    def greedy(decider: Decider, group: Any, dimension: Any, *facts: Any) -> Decision:
        decision = transfer(decider, group, dimension, *facts)
        return replace(decision, local_limit=group.limits.of(dimension))

    Decider._transfer = greedy  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    take_everything()
    main()
