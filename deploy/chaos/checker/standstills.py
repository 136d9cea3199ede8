"""When the machine stood still, judged by the threads that ask the brokers.

Each topic has a thread of its own that asks, `SAMPLED_EVERY_S` apart. A thread that has the answer to
its last question, and yet asks late, got no turn. When that holds for all of them at once, no process
got one: brokers did not count what they had, and count it afterwards. No broker, gate or sidecar alone
can bring that about; a topic without answers tells nothing, and then there is no standstill.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from deploy.demo.recording import SAMPLED_EVERY_S, Miss, Sample

_Span = tuple[float, float]


class Standstills:
    """The times in which all who ask were overdue.

    Args:
        samples: what was answered.
        misses: when there was no answer.
    """

    def __init__(self, samples: Sequence[Sample], misses: Sequence[Miss]) -> None:
        topics = {sample.topic for sample in samples} | {miss.topic for miss in misses}
        overdue = [
            _overdue(
                sorted(
                    (sample for sample in samples if sample.topic == topic),
                    key=lambda sample: sample.sent_s,
                ),
                sorted(miss.at_s for miss in misses if miss.topic == topic),
            )
            for topic in topics
        ]
        self._spans: list[_Span] = overdue[0] if overdue else []
        for of_topic in overdue[1:]:
            self._spans = _in_both(self._spans, of_topic)

    def seconds(self, from_s: float, until_s: float) -> float:
        """Return how long the machine stood still in this time."""
        first = bisect_right(self._spans, from_s, key=lambda span: span[1])
        after = bisect_left(self._spans, until_s, key=lambda span: span[0])
        return sum(
            min(end_s, until_s) - max(start_s, from_s)
            for start_s, end_s in self._spans[first:after]
        )


def _overdue(samples: Sequence[Sample], missed_s: Sequence[float]) -> list[_Span]:
    spans = []
    for last, asked in pairwise(samples):
        due_s = max(last.sent_s + SAMPLED_EVERY_S, last.answered_s)
        missed = bisect_left(missed_s, asked.sent_s) - bisect_right(missed_s, last.sent_s)
        if due_s < asked.sent_s and not missed:
            spans.append((due_s, asked.sent_s))
    return spans


def _in_both(one: Sequence[_Span], other: Sequence[_Span]) -> list[_Span]:
    """The times that are in a span of either; both are in order."""
    found, ones, others = [], list(reversed(one)), list(reversed(other))
    while ones and others:
        start_s, end_s = max(ones[-1][0], others[-1][0]), min(ones[-1][1], others[-1][1])
        if start_s < end_s:
            found.append((start_s, end_s))
        (ones if ones[-1][1] < others[-1][1] else others).pop()
    return found
