"""The spare part: what no broker has of a limit, lent to brokers that have less than an equal part.

The core gives limits to brokers whose demand it knows. Of a new group, and of one whose clients pause, it
knows none, so that each broker's limit is a reserve of a message or so. A gate holds the first messages
for a moment, and its limit follows within milliseconds. A broker is polled, and takes a limit at its next
interval: its clients would have that message per second for seconds, and the limit would stay unused.

Brokers keep the limit with any entries, as their quotas add up to the record. So each sidecar adds to its
entry, step by step, its part of what all entries together leave: while its clients want more, at most up
to the equal part; while they do not, up to an eighth of it, since an idle broker's bucket is full, and
passes at once when its clients begin. With ``s`` left of a limit and ``n`` brokers a step is ``s / 2n``,
so that ``s`` halves if all of them step at once, and does not swing if they do not see each other's last
steps. A broker with its equal part, or more, borrows nothing. The others may have what batches took out
of its entry (trim.py), as it may not.

Once entries are more than the limit, a broker whose clients do not use what it borrowed gives it back at
once. The others do so eight times as slowly as they borrow: the first broker whose demand is known gets
the whole limit until the others' demand is, a round or two later, and their clients should not lose what
they use for that time. All quotas are lower meanwhile, each in proportion.

Nothing more is lent while the entries of a sidecar are not heard, as at a start, and nothing at all to a
broker whose limit is 0, which has to stop.
"""

from __future__ import annotations

from typing import Final

STEP_NS: Final = 150_000_000
"""A little less than the time between two entries of a sidecar."""


_STEPS: Final = 2
_STEPS_BACK: Final = 16
_IDLE: Final = 8
"""With all brokers idle but for two of three that begin, a second has at most 4 % more than the limit."""


def spare(lent: int, limit: int, whole: int, entries: int, brokers: int, *, is_used: bool) -> int:
    """Return the part that a broker borrows from now on, per second.

    Args:
        lent: what it borrows now.
        limit: its limit.
        whole: the limit of all brokers together.
        entries: the sum of all brokers' entries, its own included, per second.
        brokers: the number of brokers that share the limit.
        is_used: whether clients use more than its limit, or wait to.
    """
    left = whole - entries
    if left > 0:
        step = left // (_STEPS * brokers)
    else:
        step = left // (_STEPS_BACK * brokers) if is_used else left
    most = whole // brokers if is_used else whole // (_IDLE * brokers)
    return max(0, min(lent + step, most - limit))
