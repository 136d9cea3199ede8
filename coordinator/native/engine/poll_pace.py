"""The time from one poll of the broker's counters to the next.

A poll takes the broker some milliseconds of processor, more with more topics: 0.5 s with 10,000. So polls
take at most a part of the time, the largest one after *news*: clients came or went, what passes a home
has moved by a quarter, or the broker did not answer. Two kinds of news come between polls, in the reports
that a broker writes of its own use, and then a poll is taken at once: that a group is used which was not,
and that another process reports. So while nothing passes, polls may be rare. They may not where dispatch
or single topics are limited, which no report tells of.

With 10,000 topics that is every 5 s after news, every 15 s otherwise, every 120 s while nothing passes.
Polls of up to some 2,000 topics are not *expensive*, and as far apart with news as without.

Pure: told the polls and the reports, it returns the times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.counting import NamespaceCount

_POLLS_JUDGED: Final = 8
"""The shortest of these counts: a busy machine makes a poll long, but not expensive."""

_EXPENSIVE_S: Final = 0.1
_MOVED_BY: Final = 4
_MOVED_LEAST: Final = 10
"""A rate has moved if it differs by this part, and by more than this number of messages a second."""


class _Pace(NamedTuple):
    """A time that depends on how long polls take.

    Args:
        cost: the part of the time that they may take.
        most_s: the longest time, however long they take.
    """

    cost: float
    most_s: float


_AFTER_NEWS: Final = _Pace(0.05, 5.0)
_STEADY: Final = _Pace(0.02, 15.0)
_IDLE: Final = _Pace(0.005, 120.0)


class PollPace:
    """The pace of the polls of one broker.

    Args:
        least_s: the least time from one poll to the next.
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._took_s: deque[float] = deque(maxlen=_POLLS_JUDGED)
        self._participants: Mapping[str, tuple[int, int]] = {}
        #: By home, the messages per second that passed, both ways.
        self._passed: dict[str, int] = {}
        self._is_idle = False
        #: Of the broker's last own report.
        self._reporter = ""

    @property
    def soonest_s(self) -> float:
        """The time from the last poll to the next one, if there is news."""
        return self._every_s(_AFTER_NEWS)

    @property
    def latest_s(self) -> float:
        """The time from the last poll to the next one, if there is none."""
        if self._shortest_s < _EXPENSIVE_S:
            return self.soonest_s
        return self._every_s(_IDLE if self._is_idle else _STEADY)

    def polled(
        self,
        counts: Mapping[str, NamespaceCount],
        participants: Mapping[str, tuple[int, int]],
        elapsed_ns: int,
        *,
        is_reported: bool,
    ) -> bool:
        """Take what a poll found; tell whether it is news.

        Args:
            counts: of each home.
            participants: producers and consumers by group.
            elapsed_ns: since the poll before.
            is_reported: whether the broker's own reports tell of all that is limited.
        """
        before = self._passed
        self._passed = {
            home: (each.messages + each.out_messages) * NANOS_PER_SECOND // max(1, elapsed_ns)
            for home, each in counts.items()
        }
        self._is_idle = is_reported and not any(self._passed.values())
        were, self._participants = self._participants, dict(participants)
        return were != self._participants or any(
            _has_moved(before.get(home, 0), self._passed.get(home, 0))
            for home in before.keys() | self._passed.keys()
        )

    def heard(self, reporter: str, *, is_new_use: bool) -> bool:
        """Take a report of the broker's own; tell whether it is news.

        Args:
            reporter: the name of its producer, another one for each process.
            is_new_use: whether a group is used that was not at the last poll.
        """
        before, self._reporter = self._reporter, reporter
        return is_new_use or before != reporter

    def took(self, seconds: float) -> None:
        """Take how long a poll took that was answered, from its request to the last byte."""
        self._took_s.append(seconds)

    @property
    def _shortest_s(self) -> float:
        return min(self._took_s, default=0.0)

    def _every_s(self, pace: _Pace) -> float:
        return max(self._least_s, min(pace.most_s, self._shortest_s / pace.cost))


def _has_moved(before: int, now: int) -> bool:
    return abs(now - before) > max(_MOVED_LEAST, max(before, now) // _MOVED_BY)
