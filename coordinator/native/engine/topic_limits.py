"""The limits of single topics, as Pulsar's own policies hold them: the rates, and which to look at now.

A limit of a topic is meant for all its partitions together, and a policy for each of them. So the policy
is the limit divided by their number, which is the same at every broker and changes with the limit and the
number alone: no demand has to be known, and no report exchanged.

Pulsar's policies are durable. So a topic is looked at when its limit changes, at each step until it is
right, and then again now and then, in case others have changed it: at once where more passes than the
limit. One that does not exist yet is looked at as soon as this broker serves it.

A subscription that is attached to a group is here, too: its limit is the whole of the group's limit of
dispatch, which it never exceeds, until its broker's sidecar knows its part (dispatch.py).

Pure: told the limits, what is loaded and what was found, it returns the topics to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND, Rates
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.owners import base_of, is_topic
from coordinator.native.engine.rate_policy import LEAST, PolicyRate

_AGAIN_NS: Final = 30 * NANOS_PER_SECOND
"""A topic that was right is looked at again after this time."""

_AGAIN_AT_ONCE: Final = 4
_AT_ONCE: Final = 32
"""Topics that are looked at in a step: of those that were right, and of all."""

_LUMP_NS: Final = 2 * NANOS_PER_SECOND

_TURN_NS: Final = 2 * NANOS_PER_SECOND
"""A topic that is served elsewhere, and wrong for this time, is the next member's."""


@dataclass(slots=True)
class LimitedTopic:
    """A topic that has a limit, or had one that may not be taken away yet.

    Args:
        limits: of all its partitions together.
        partitions: how many it has; 1 for a topic without.
        looked_at_ns: when; None: not since the limit has changed.
        is_right: whether its policies were found as they should be, or made so.
        is_missing: whether there was no such topic.
        wrong_since_ns: since when it is not; None if it is.
    """

    limits: Rates
    partitions: int
    looked_at_ns: int | None = None
    is_right: bool = False
    is_missing: bool = False
    wrong_since_ns: int | None = None

    @property
    def publish(self) -> PolicyRate:
        """The publish rate of each partition."""
        return self._each(self.limits.publish_messages, self.limits.publish_bytes)

    @property
    def dispatch(self) -> PolicyRate:
        """The dispatch rate of each partition."""
        return self._each(self.limits.dispatch_messages, self.limits.dispatch_bytes)

    def is_passed(self, before: TopicCount, now: TopicCount, elapsed_ns: int) -> bool:
        """Return whether more has passed a partition between two polls than its rates let.

        Pulsar lets a second's worth pass at once, and batches in lumps of up to two.
        """
        passed = (
            (self.publish.messages, now.messages - before.messages),
            (self.publish.bytes, now.bytes - before.bytes),
            (self.dispatch.messages, now.out_messages - before.out_messages),
            (self.dispatch.bytes, now.out_bytes - before.out_bytes),
        )
        return any(
            rate is not None and amount * NANOS_PER_SECOND > rate * (elapsed_ns + _LUMP_NS)
            for rate, amount in passed
        )

    def _each(self, messages: int | None, size: int | None) -> PolicyRate:
        rates = (
            None if whole is None else max(LEAST, whole // self.partitions)
            for whole in (messages, size)
        )
        return PolicyRate(*rates)


class TopicLimitBook:
    """All topics with limits of their own, as one sidecar knows them."""

    def __init__(self) -> None:
        self.topics: dict[str, LimitedTopic] = {}
        #: The topics that this broker serves; of each its partitions here, and their counters.
        self._served: dict[str, dict[str, TopicCount]] = {}
        self._suspects: set[str] = set()

    def set_limit(self, topic: str, limits: Rates, partitions: int) -> None:
        """Take a topic's limit; no rates, none."""
        if limits == Rates() and topic not in self.topics:
            return
        self.topics[topic] = LimitedTopic(limits, partitions)

    def poll(self, counts: Iterable[TopicCount], elapsed_ns: int) -> None:
        """Take a poll of the broker's counters, and the time since the last one."""
        if not self.topics and not self._served:
            return
        before, self._served = self._served, {}
        for count in counts:
            name = count.owner
            limited = self.topics.get(name)
            if limited is None:
                continue
            self._served.setdefault(name, {})[count.topic] = count
            last = before.get(name, {}).get(count.topic)
            if last is not None and limited.is_passed(last, count, elapsed_ns):
                self._suspects.add(name)

    def due(self, now_ns: int) -> list[str]:
        """Return the topics to look at now."""
        wrong: list[str] = []
        again: list[tuple[int, str]] = []
        for name, topic in self.topics.items():
            looked_at_ns = topic.looked_at_ns
            waits = topic.is_right or (topic.is_missing and name not in self._served)
            if looked_at_ns is None or not waits or name in self._suspects:
                wrong.append(name)
            elif now_ns - looked_at_ns >= _AGAIN_NS:
                again.append((looked_at_ns, name))
        # The longest ago first, so that each has its turn however many stay wrong.
        wrong.sort(key=lambda name: self.topics[name].looked_at_ns or 0)
        return [*wrong[:_AT_ONCE], *(name for _, name in sorted(again)[:_AGAIN_AT_ONCE])]

    def is_turn(self, name: str, rank: int | None, now_ns: int) -> bool:
        """Return whether it is this sidecar that writes a topic's policies: it serves it, or none does.

        Args:
            name: of the topic.
            rank: this sidecar's place among the members; None while it is no member.
            now_ns: the time.
        """
        topic = self.topics[name]
        if topic.wrong_since_ns is None:
            topic.wrong_since_ns = now_ns
        return rank is not None and (
            name in self._served or now_ns - topic.wrong_since_ns >= rank * _TURN_NS
        )

    def looked_at(
        self, name: str, now_ns: int, *, is_right: bool, is_missing: bool = False
    ) -> None:
        """Take what was found of a topic."""
        topic = self.topics[name]
        self._suspects.discard(name)
        topic.looked_at_ns, topic.is_right, topic.is_missing = now_ns, is_right, is_missing
        if is_right or is_missing:
            topic.wrong_since_ns = None
            if topic.limits == Rates():
                del self.topics[name]

    def held(self) -> Iterator[tuple[str, LimitedTopic]]:
        """Yield the topics whose own limits are in force."""
        for name, topic in self.topics.items():
            if is_topic(name) and topic.is_right and topic.limits != Rates():
                yield name, topic


def cannot_hold(topic: str, limits: Rates, partitions: int) -> str:
    """Return in words what of a topic's limit its policies cannot hold; empty if they can.

    Pulsar keeps no properties of topics that are not persistent: what an operator has set could not be
    kept, and given back.
    """
    if limits == Rates():
        return ""
    if not base_of(topic):
        return f"{topic}, as it is not persistent"
    least = partitions * LEAST
    rates = (
        limits.publish_messages, limits.publish_bytes, limits.dispatch_messages, limits.dispatch_bytes,
    )  # fmt: skip
    if any(rate is not None and rate < least for rate in rates):
        return f"{topic} below {least} a second"
    return ""
