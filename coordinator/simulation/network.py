"""The way of a usage report from one sidecar to each of the others, with all that goes wrong on it.

The bus is a non-persistent topic: a report is handed to each reader apart, so each link loses, delays
and doubles on its own. A link keeps the order, as one TCP connection does, except for the share of
reports that ``reorder`` lets others overtake.

*Bursts.* Losses come in runs of ``burst`` reports (a Gilbert channel with runs of fixed length). A run
starts with probability ``p / (burst·(1-p))`` after a report that passed, which makes the share of lost
reports ``p`` whatever the length of the runs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from coordinator.core.model import NANOS_PER_MILLI


@dataclass(slots=True)
class NetworkConditions:
    """The present state of the network; may be changed at any moment.

    Args:
        loss: share of reports lost, 0 to 1.
        burst: how many reports in a row one loss takes.
        delay_ns: from the sender to the reader, at least. The real bus has a p50 of 2 ms.
        jitter_ns: more than that, evenly spread.
        duplicate: share of reports that arrive twice.
        reorder: share of reports that later ones overtake.
        reorder_ns: how late those are at most.
    """

    loss: float = 0.0
    burst: int = 1
    delay_ns: int = 2 * NANOS_PER_MILLI
    jitter_ns: int = 5 * NANOS_PER_MILLI
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_ns: int = 2_000 * NANOS_PER_MILLI


class Network:
    """Says when, and whether, a report arrives."""

    def __init__(self, rng: random.Random, conditions: NetworkConditions) -> None:
        self.conditions = conditions
        #: Nothing passes: the broker that owns the bus topic is gone.
        self.down = False
        self._rng = rng
        self._cut: set[tuple[str, str]] = set()
        self._last_arrival_ns: dict[tuple[str, str], int] = {}
        self._still_to_lose: dict[tuple[str, str], int] = {}

    def cut(self, sender: str, receiver: str) -> None:
        """Let nothing pass in this direction."""
        self._cut.add((sender, receiver))

    def partition(self, one: list[str], other: list[str]) -> None:
        """Let nothing pass between two sides."""
        for left in one:
            for right in other:
                self._cut.update(((left, right), (right, left)))

    def heal(self) -> None:
        """Let everything pass again."""
        self._cut.clear()

    def arrivals(self, sender: str, receiver: str, now_ns: int) -> tuple[int, ...]:
        """When a report sent now arrives; empty when it is lost, twice when it is doubled."""
        link = (sender, receiver)
        if self.down or link in self._cut or self._loses(link):
            return ()
        conditions, rng = self.conditions, self._rng
        arrival_ns = now_ns + conditions.delay_ns + int(rng.random() * conditions.jitter_ns)
        if conditions.reorder and rng.random() < conditions.reorder:
            arrival_ns += int(rng.random() * conditions.reorder_ns)
        else:
            arrival_ns = max(arrival_ns, self._last_arrival_ns.get(link, 0))
            self._last_arrival_ns[link] = arrival_ns
        if conditions.duplicate and rng.random() < conditions.duplicate:
            return arrival_ns, arrival_ns + int(rng.random() * conditions.reorder_ns)
        return (arrival_ns,)

    def _loses(self, link: tuple[str, str]) -> bool:
        left = self._still_to_lose.get(link, 0)
        if left:
            self._still_to_lose[link] = left - 1
            return True
        loss, burst = self.conditions.loss, self.conditions.burst
        if loss <= 0:
            return False
        starts = 1.0 if loss >= 1 else min(1.0, loss / (burst * (1 - loss)))
        if burst == 1:
            starts = loss  # independent losses, also right after one
        if self._rng.random() >= starts:
            return False
        self._still_to_lose[link] = burst - 1
        return True
