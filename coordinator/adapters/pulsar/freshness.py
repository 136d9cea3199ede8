"""The age of bus messages by their publish time, without a common clock.

The publish time is by the sender's clock. The difference to the receiver's clock is the delay of the
message and the difference of both clocks, which stays the same from message to message. So the smallest
difference among a sender's last messages is taken for no delay at all, and a message is as old as its
difference exceeds that one. A sender whose clock is set back loses at most `REMEMBERED` messages; one
whose clock is set forward, none.

A message can therefore be older than found here by the delay of the quickest one. The first message of a
sender has nothing to be compared with, and is taken.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

REMEMBERED: Final = 16
"""Messages of a sender that a message is compared with."""

SENDERS_MAX: Final = 10_000
"""Senders that are remembered; one more replaces the one that was silent longest."""


class Freshness:
    """Tells old messages.

    Args:
        age_max_ms: the greatest age of a message that is not old.
    """

    def __init__(self, age_max_ms: int) -> None:
        self._age_max_ms = age_max_ms
        self._differences: OrderedDict[str, deque[int]] = OrderedDict()

    def is_old(self, sender: str, published_ms: int, now_ms: int) -> bool:
        """Return whether a message that has just arrived is old; remember its difference of times."""
        differences = self._differences.get(sender)
        if differences is None:
            differences = self._differences[sender] = deque(maxlen=REMEMBERED)
            if len(self._differences) > SENDERS_MAX:
                self._differences.popitem(last=False)
        self._differences.move_to_end(sender)
        differences.append(now_ms - published_ms)
        return differences[-1] - min(differences) > self._age_max_ms
