"""Demand that moves whole from one broker to another, as when segments of a scalable topic are merged.

A broker whose clients have gone keeps its part until its next report says that it wants nothing, and a
broker to which they have come is known to want more from its own. Between the two lie at most two rounds,
in which part of the limit is unused. At no moment does more than the limit pass.
"""

from __future__ import annotations

from bisect import bisect_left

import pytest

from tests.closed_loop.loop import Loop
from tests.closed_loop.senders import Sender, late, steady

LIMIT = 200
WINDOW = 32
"""Frames that a client with one of 32 keys under way each sends ahead."""
SETTLED_S = 12.0
PAUSE_S = 0.3
"""For which the clients pass nothing: their segment is sealed, and they ask for the new layout."""
TWO_ROUNDS_S = 2.0
STEP_S = 0.05


@pytest.mark.parametrize("into_round_s", [0.0, 0.25, 0.5, 0.75])
def test_demand_that_moves_whole_has_the_whole_limit_after_two_rounds(into_round_s: float) -> None:
    """Whenever in a round it moves; beside the pause, at most 1.5 s of the limit are lost."""
    moves_s = SETTLED_S + into_round_s
    leaving = Sender(steady(5 * LIMIT), WINDOW)
    coming = Sender(late(moves_s + PAUSE_S, steady(5 * LIMIT)), WINDOW)
    loop = Loop(limit=LIMIT)
    loop.start_senders({"b0": leaving, "b1": coming})

    times_s, passed = [0.0], [0]
    while times_s[-1] < moves_s + 8:
        if times_s[-1] >= moves_s:
            leaving.leave()
        loop.run(STEP_S)
        times_s.append(round(times_s[-1] + STEP_S, 2))
        passed.append(sum(loop.passed().values()))

    def between(start_s: float, end_s: float) -> int:
        start, end = (bisect_left(times_s, each) for each in (start_s, end_s))
        return passed[end] - passed[start]

    starts_s = [each for each in times_s if 6 <= each <= moves_s + 7]
    assert max(between(each, each + 1) for each in starts_s) <= 1.05 * LIMIT
    undisturbed_s = [
        each for each in starts_s if not moves_s - 1 < each < moves_s + PAUSE_S + TWO_ROUNDS_S
    ]
    assert min(between(each, each + 1) for each in undisturbed_s) >= 0.95 * LIMIT
    assert between(moves_s - 1, moves_s + 4) >= (5 - PAUSE_S - 1.5) * LIMIT
