"""The rate at which the consumers of each topic here are sent messages, by the broker's counters.

Counted are the owners (owners.py) of some homes: each topic of a namespace, each attached subscription
by itself, and each topic's replication to an attached cluster.

A topic that uses its rate up is sent a second of it at once, and then nothing until the next one (seen
on 4.2.4), and batches are sent in larger lumps still. So a poll is taken for a second at least, and the
rate is that of the last `_WINDOW_NS` where that is more. Partitions are counted one by one: they are
known by the name of their topic, whose policy they share; those of a subscription by that of the topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.entries import NOTHING, Amounts
from coordinator.native.engine.owners import base_of, home_of

_WINDOW_NS: Final = 2 * NANOS_PER_SECOND
_POLLS_MAX: Final = 32


class _Partition:
    """One topic without partitions, or one partition."""

    __slots__ = ("_bytes", "_last", "_messages", "_over_ns", "_polls", "consumers")

    def __init__(self, count: TopicCount) -> None:
        self._last = count
        self._polls: deque[tuple[int, int, int]] = deque(maxlen=_POLLS_MAX)
        #: The sums of these polls.
        self._messages = self._bytes = self._over_ns = 0
        self.consumers = count.consumers

    def count(self, now: TopicCount, elapsed_ns: int) -> None:
        """Take its counters, which start from 0 when the topic is loaded."""
        before, self._last, self.consumers = self._last, now, now.consumers
        began_anew = now.out_messages < before.out_messages
        messages = now.out_messages - (0 if began_anew else before.out_messages)
        size = max(0, now.out_bytes - (0 if began_anew else before.out_bytes))
        polls = self._polls
        while polls and (
            self._over_ns + elapsed_ns - polls[0][2] >= _WINDOW_NS or len(polls) == _POLLS_MAX
        ):
            old_messages, old_size, old_ns = polls.popleft()
            self._messages -= old_messages
            self._bytes -= old_size
            self._over_ns -= old_ns
        polls.append((messages, size, elapsed_ns))
        self._messages += messages
        self._bytes += size
        self._over_ns += elapsed_ns

    @property
    def last(self) -> Amounts:
        """The amounts that were sent between the last two polls."""
        return Amounts(*self._polls[-1][:2]) if self._polls else NOTHING

    @property
    def rate(self) -> Amounts:
        """The rate, per second: of the window, or of the last poll if that alone is more."""
        if not self._messages:
            return NOTHING
        messages, size, elapsed_ns = self._polls[-1]
        over_ns = max(NANOS_PER_SECOND, self._over_ns)
        last_ns = max(NANOS_PER_SECOND, elapsed_ns)
        return Amounts(
            max(
                self._messages * NANOS_PER_SECOND // over_ns, messages * NANOS_PER_SECOND // last_ns
            ),
            max(self._bytes * NANOS_PER_SECOND // over_ns, size * NANOS_PER_SECOND // last_ns),
        )


class SentByTopic:
    """The owners of some homes at this broker, as of the last poll."""

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}
        self._parted: set[str] = set()
        #: By home, the owners that are loaded here; of each the names of its partitions here.
        self._loaded: dict[str, dict[str, list[str]]] = {}
        self._uses: dict[str, dict[str, Mapping[str, Amounts]]] = {}

    def poll(self, counts: Iterable[TopicCount], homes: Container[str], elapsed_ns: int) -> None:
        """Take a poll of the broker's counters; owners of other homes are not kept."""
        kept: dict[str, _Partition] = {}
        self._loaded, self._parted = {}, set()
        for count in counts:
            owner = count.owner
            home = home_of(owner) if owner else ""
            if home not in homes:
                continue
            name = f"{count.topic}\n{owner}" if count.is_of_part else count.topic
            self._loaded.setdefault(home, {}).setdefault(owner, []).append(name)
            if count.topic != base_of(count.topic):
                self._parted.add(owner)
            known = self._partitions.get(name)
            if known is None:
                known = _Partition(count)
            else:
                known.count(count, elapsed_ns)
            kept[name] = known
        self._partitions = kept
        self._uses = {name: dict(self._used(names)) for name, names in self._loaded.items()}

    def is_parted(self, owner: str) -> bool:
        """Return whether the topic of an owner that is loaded here has partitions."""
        return owner in self._parted

    def loaded(self, home: str) -> Iterable[str]:
        """Return the owners of a home that are loaded here, with consumers or without."""
        return self._loaded.get(home, {}).keys()

    def uses(self, home: str) -> Mapping[str, Mapping[str, Amounts]]:
        """Return what each owner with consumers is sent, per second, by the names of its partitions."""
        return self._uses.get(home, {})

    def last(self, owner: str) -> Mapping[str, Amounts]:
        """Return what each partition of an owner was sent between the last two polls."""
        names = self._loaded.get(home_of(owner), {}).get(owner, ())
        return {name: self._partitions[name].last for name in names}

    def _used(
        self, owners: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[str, Mapping[str, Amounts]]]:
        for owner, names in owners.items():
            partitions = {name: self._partitions[name] for name in names}
            rates = {name: each.rate for name, each in partitions.items() if each.consumers}
            if rates:
                yield owner, rates
