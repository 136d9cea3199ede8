"""The shell of single topics' limits: writes Pulsar's publish and dispatch rates of these topics.

What an operator has set for a topic is kept before the first write (kept_rates.py), stays the most that
the topic gets, and comes back when its limit is taken away. What others set meanwhile is set again, and
told, unless the topic has got more partitions, of which sidecars hear one after the other.

An attached subscription is kept in the same way, within the limit of its group.

A topic may also have a part of its group's dispatch limit. Then its dispatch rate is the sidecar's that
serves it (dispatching.py), and may be less than the topic's own limit, never more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from coordinator.core.model import Rates
from coordinator.native.engine.conditions import Observed
from coordinator.native.engine.dispatch import DispatchSteering
from coordinator.native.engine.outside import RatePolicies
from coordinator.native.engine.owners import home_of, is_topic
from coordinator.native.engine.rate_policy import DISPATCH, NO_RATE, PolicyRate, lower_of
from coordinator.native.engine.topic_limits import LimitedTopic, TopicLimitBook
from coordinator.native.shell.kept_rates import NOTHING_SET, at_once, find, give_back
from coordinator.native.shell.rounds import rounds
from coordinator.ports import Clock, NotFound, PortError

_EVERY_S: Final = 0.5
"""A topic that is new is seen at the next poll of the counters, which comes as often."""

log = structlog.get_logger(__name__)


class TopicLimiting:
    """Keeps the publish and dispatch rates of topics with limits of their own, for one sidecar.

    Args:
        publish_rates: reads and writes those of publishing.
        dispatch_rates: those of dispatch.
        dispatch: knows which topics have a part of a group's dispatch limit.
        seen: takes the reason why they cannot be written, and what others have changed.
        clock: monotonic time.
    """

    def __init__(
        self,
        publish_rates: RatePolicies,
        dispatch_rates: RatePolicies,
        dispatch: DispatchSteering,
        seen: Observed,
        clock: Clock,
    ) -> None:
        self._publish_rates = publish_rates
        self._dispatch_rates = dispatch_rates
        self._dispatch = dispatch
        self._seen = seen
        self._clock = clock
        self.book = TopicLimitBook()
        #: This sidecar's place among the members; None while it is no member.
        self.rank: int | None = None
        self._subscriptions: Mapping[str, Rates] = {}
        #: Set when a limit has changed.
        self.wanted = asyncio.Event()

    def set_limit(self, topic: str, limits: Rates, partitions: int) -> None:
        """Take a topic's limit, of all its partitions together; no rates, none."""
        self.book.set_limit(topic, limits, partitions)
        limited = self.book.topics.get(topic)
        self._dispatch.set_own_limit(topic, NO_RATE if limited is None else limited.dispatch)
        self.wanted.set()

    def set_subscriptions(self, limits: Mapping[str, Rates]) -> None:
        """Take the attached subscriptions, and the dispatch limits of their groups."""
        for owner in self._subscriptions.keys() - limits.keys():
            self.set_limit(owner, Rates(), 1)
        for owner, whole in limits.items():
            if self._subscriptions.get(owner, Rates()) != whole:
                self.set_limit(owner, whole, 1)
        self._subscriptions = dict(limits)

    async def run(self) -> None:
        """Run for ever; what fails is tried again."""

        def note(reason: str) -> None:
            self._seen.topic_limits_error = reason

        await rounds(
            self.step, self.wanted, lambda: _EVERY_S, note, "limits of topics cannot be kept"
        )

    async def step(self) -> None:
        """Look at the topics that are due, and write what is wrong.

        Raises:
            PortError: the broker does not answer, or does not allow it.
        """
        if self._seen.facts is not None and self._seen.facts.topic_policies:
            await at_once(self._look_at, self.book.due(self._clock.now_ns()))

    async def _look_at(self, topic: str) -> None:
        limited = self.book.topics[topic]
        try:
            is_right = await self._bring(self._dispatch_rates, topic, limited.dispatch)
            if is_topic(topic):
                is_right &= await self._bring(self._publish_rates, topic, limited.publish)
        except NotFound:
            self._looked_at(topic, limited, is_right=False, is_missing=True)
        except PortError:
            self._looked_at(topic, limited, is_right=False)  # others have their turn first
            raise
        else:
            self._looked_at(topic, limited, is_right=is_right)

    def _looked_at(
        self, topic: str, limited: LimitedTopic, *, is_right: bool, is_missing: bool = False
    ) -> None:
        if self.book.topics.get(topic) is limited:  # no other limit since
            now_ns = self._clock.now_ns()
            self.book.looked_at(topic, now_ns, is_right=is_right, is_missing=is_missing)

    async def _bring(self, policies: RatePolicies, topic: str, limit: PolicyRate) -> bool:
        """Bring a topic's policy to its limit, if it is this sidecar's turn; tell whether it is there."""
        found = await find(policies, topic)
        has_part = policies.policy is DISPATCH and self._dispatch.holds_dispatch(home_of(topic))
        most = lower_of(limit, found.by_operator)
        if limit == NO_RATE:
            is_right = found.kept is None or has_part
        else:
            is_low = has_part and lower_of(found.present, most) == found.present
            is_right = found.kept is not None and (is_low or found.present == most)
        if is_right:
            return True
        limited = self.book.topics[topic]
        if limited.is_right and limit != NO_RATE:
            if is_topic(topic) and await policies.partitions(topic) not in (0, limited.partitions):
                return True  # another sidecar knows already that there are more, and this one will
            self._seen.note_edited(topic, self._clock.now_ns())
        if not self.book.is_turn(topic, self.rank, self._clock.now_ns()):
            return False
        if limit == NO_RATE:
            return await give_back(policies, topic)
        if found.kept is None:
            await policies.keep(topic, found.body or NOTHING_SET)
        if has_part:
            # Until the sidecar of its broker knows what it needs.
            most = lower_of(most, self._dispatch.idle_rate(topic))
        await policies.set_rate(topic, policies.policy.body_of(most))
        log.info("limit of a topic set", topic=topic, policy=policies.policy.path, rate=most)
        return True
