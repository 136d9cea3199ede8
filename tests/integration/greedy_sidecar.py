"""A sidecar that takes every group's whole limit and says so, for the test of what that does to others.

Run as a program in place of ``-m coordinator.cli``: the rest of the command line is the sidecar's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coordinator.cli.__main__ import main
from coordinator.core.decisions.decision import Decision
from coordinator.core.decisions.moving import MovingLimits


def take_everything() -> None:
    """Take all of the limit; explanations still tell the decision of law and policy."""
    move = MovingLimits.decide

    def greedy(limits: MovingLimits, limit: Any, whole: int, facts: Any) -> Decision:
        return replace(move(limits, limit, whole, facts), local_limit=whole)

    MovingLimits.decide = greedy  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    take_everything()
    main()
