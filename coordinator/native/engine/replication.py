"""The messages and bytes that topics here replicate to remote clusters, by counters of entries.

Pulsar counts replication by *entries*: a batch is one, for its counters and for its limiter. A group's
limits are of messages. So each is told by the mean of the entries that were last written to the topic:

    entries written = entries sent + growth of the backlog
    messages in each = messages that clients of this cluster published / entries written

A message is counted before its entry is there, so those of the last poll are *late*.

What other clusters have replicated here is not replicated again, so it is not among these messages. An
entry's bytes are those of its messages, with what the broker stores beside them, as the limiter counts.

Brokers of some releases stop replicating a topic for ever once a rate has held it back (apache/pulsar
#26005: seen on 4.0.7 and 5.0.0-M1, and not on 4.2.4). So none is written at a broker unless its release
is known to be without that fault, by its classes: the fault came with 4.0.6.

Pure: told the counters, it returns counts that only grow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.core.topics import namespace_in
from coordinator.native.engine.counting import ReplicatorCount, TopicCount
from coordinator.native.engine.owners import owner_of
from coordinator.native.engine.rate_policy import LEAST, PolicyRate

_WHOLE: Final = 1000
_MEAN_MAX: Final = 1000 * _WHOLE
"""The most messages of an entry, in thousandths: entries that expire unsent make it look higher."""

_POLLS: Final = 20
"""Polls in which a topic was written, that a window has. The mean is that of the last two."""

_ONE_MAX: Final = 1_050
"""Up to this mean, in thousandths, entries are taken for single messages: windows cut late ones off."""

_LATE_MAX: Final = 2_000
"""As many messages may be late when a topic is seen for the first time."""

_GOES_ON: Final = (((4, 0, 0), (4, 0, 6)), ((4, 2, 4), (5, 0, 0)), ((5, 0, 1), (999, 0, 0)))
"""Releases that go on after a rate has held replication back: from each first one to below the second."""

_RELEASE: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)")


def can_throttle(version: str) -> bool:
    """Return whether brokers of a version go on replicating after a rate has held them back.

    Args:
        version: as the broker tells it; one that is not understood cannot.
    """
    found = _RELEASE.match(version)
    if found is None:
        return False
    release = tuple(map(int, found.groups()))
    return any(first <= release < end for first, end in _GOES_ON)


@dataclass(slots=True)
class _Written:
    """The writes to a topic in a window.

    Args:
        entries: entries of this cluster.
        messages: messages of this cluster whose entries must be among these.
        published: messages of all clusters.
        bytes: the same, in bytes.
    """

    entries: int = 0
    messages: int = 0
    published: int = 0
    bytes: int = 0


class _Replicator:
    """One topic, or partition, and one remote cluster."""

    __slots__ = ("_before", "_last", "_late", "_parts", "_polls", "_sent_bytes", "_window")

    def __init__(self, first: ReplicatorCount) -> None:
        self._last = first
        #: Thousandths of messages that were sent, and bytes, since the first count.
        self._parts = self._sent_bytes = 0
        local = first.messages - first.received
        #: Messages of the last poll, of which the entries may not be there yet.
        self._late = min(local, _LATE_MAX)
        self._before = _Written(
            first.sent + first.backlog, local - self._late, first.messages, first.bytes
        )
        self._window = _Written()
        self._polls = 0

    @property
    def mean(self) -> int:
        """Messages of an entry, in thousandths.

        It is between what the messages and the late messages make it. Where that can be one, it is.
        """
        entries = max(1, self._before.entries + self._window.entries)
        least = self._before.messages + self._window.messages
        if least * _WHOLE <= entries * _ONE_MAX:
            return _WHOLE
        return min((2 * least + self._late) * _WHOLE // (2 * entries), _MEAN_MAX)

    def count(self, now: ReplicatorCount) -> None:
        """Take its counters, which start from 0 when the topic is loaded."""
        before, self._last = self._last, now
        if now.sent < before.sent or now.messages < before.messages:
            before = before._replace(messages=0, bytes=0, received=0, sent=0, backlog=now.backlog)
        sent = now.sent - before.sent
        self._note_written(before, now)
        self._parts += sent * self.mean
        published = max(1, self._before.published + self._window.published)
        size = self._before.bytes + self._window.bytes
        self._sent_bytes += sent * self.mean * size // (published * _WHOLE)

    def _note_written(self, before: ReplicatorCount, now: ReplicatorCount) -> None:
        entries = now.sent - before.sent + now.backlog - before.backlog
        published = now.messages - before.messages
        if entries < 0 or not (entries or published or self._late):
            return
        if self._polls == _POLLS:
            self._window.messages += self._late
            self._before, self._window, self._polls, self._late = self._window, _Written(), 0, 0
        window = self._window
        window.entries += entries
        window.messages += self._late
        self._late = published - (now.received - before.received)
        window.published += published
        window.bytes += now.bytes - before.bytes
        self._polls += 1

    def counted(self) -> TopicCount:
        """Return what was sent since the first count."""
        last = self._last
        return TopicCount(
            namespace_in(last.topic),
            last.topic,
            out_messages=self._parts // _WHOLE,
            out_bytes=self._sent_bytes,
            consumers=1,
            remote=last.remote,
        )


class ReplicationBook:
    """All replication from this broker to attached clusters, as of the last poll."""

    def __init__(self) -> None:
        self._replicators: dict[tuple[str, str], _Replicator] = {}
        #: The highest mean of each owner's partitions.
        self._means: dict[str, int] = {}

    def poll(self, counts: Iterable[ReplicatorCount]) -> list[TopicCount]:
        """Take a poll of the broker's counters; return what was sent by topic and remote cluster."""
        before, self._replicators, self._means = self._replicators, {}, {}
        for count in counts:
            key = count.topic, count.remote
            known = before.get(key)
            if known is None:
                known = _Replicator(count)
            else:
                known.count(count)
            self._replicators[key] = known
            owner = owner_of(count.topic, remote=count.remote)
            self._means[owner] = max(known.mean, self._means.get(owner, 0))
        return [each.counted() for each in self._replicators.values()]

    def in_entries(self, owner: str, rate: PolicyRate) -> PolicyRate:
        """Return a rate of an owner as Pulsar counts it: its messages as entries."""
        if rate.messages is None:
            return rate
        return rate._replace(messages=max(LEAST, rate.messages * _WHOLE // self._mean(owner)))

    def in_messages(self, owner: str, rate: PolicyRate) -> PolicyRate:
        """Return a rate of entries as groups count it."""
        if rate.messages is None:
            return rate
        return rate._replace(messages=rate.messages * self._mean(owner) // _WHOLE)

    def _mean(self, owner: str) -> int:
        return self._means.get(owner, _WHOLE)
