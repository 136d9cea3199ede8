"""Rounds: the time from one report of every broker to the next, as the gate's counts divide it.

A Tick closes the round once counts cover it. A sample must cover exactly the time that was counted, so a
round lasts to the last count before that Tick; it may be a little longer than ``round_ns``.
"""

from __future__ import annotations


class Rounds:
    """The present round and the number of those closed.

    Args:
        round_ns: the least length of a round.
    """

    def __init__(self, round_ns: int) -> None:
        self._round_ns = round_ns
        #: Rounds closed since the start.
        self.closed = 0
        #: The length of the last closed round, which the samples of a report cover.
        self.elapsed_ns = round_ns
        #: When the present round began, and when counts last arrived; None before the first event.
        self._began_ns: int | None = None
        self._counted_ns = 0

    @property
    def ends_ns(self) -> int:
        """Return when the present round is long enough to be closed."""
        assert self._began_ns is not None
        return self._began_ns + self._round_ns

    def begin(self, now_ns: int) -> None:
        """Begin the first round with the first event."""
        if self._began_ns is None:
            self._began_ns = self._counted_ns = now_ns

    def count(self, now_ns: int) -> int:
        """Note that counts arrived; return the time that they cover."""
        elapsed_ns, self._counted_ns = now_ns - self._counted_ns, now_ns
        return elapsed_ns

    def close(self) -> bool:
        """Close the present round and begin the next one, if counts cover it."""
        if self._counted_ns < self.ends_ns:
            return False
        assert self._began_ns is not None
        self.elapsed_ns, self._began_ns = self._counted_ns - self._began_ns, self._counted_ns
        self.closed += 1
        return True
