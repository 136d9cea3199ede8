"""Dispatch limits of groups, held by Pulsar's own dispatch rates of the topics that this broker serves.

The broker's limiter of resource groups knows publishing only. So a group's local limit of dispatch is
split among the topics here that have consumers (topic_rates.py), and each part is that topic's policy
``dispatchRate``.

* **The floor** of a namespace is its default ``dispatchRate``: a small part of the limit. A topic that is
  new has it from its first message on, and one with little use has no rate of its own and costs no write.
  At a broker with a gate nothing would raise it, so where any sidecar has one there is no floor, and each
  topic with consumers here gets a rate of its own.
* **What an operator has set** for a topic, or for the namespace, stays the most that a topic gets. It is
  kept beside the topic before the first write (shell/dispatching.py), and comes back.
* **Partitions** of a topic may be served by several brokers, and have one policy (topic_policy.py). A
  topic whose rate another broker needs so low is not taken for one that this broker's limit holds: so the
  law moves the limit to the brokers that use theirs up.
* **Counts** of what was sent are handed on as they are paid for (topic_rates.py), as the law would take
  a lump for demand, and the time without any that follows for none.
* **Limits of single topics** (topic_limiting.py) bound their topics' rates as well.
* **A subscription** that is attached to a group has a rate of its own, as a topic has (owners.py), and
  "topic" stands for both here. It has no namespace's floor, so its rate while idle is written.
* **Replication** of a topic to an attached remote cluster has a rate of its own, too, and no floor.
* **Without consumers** a topic that this broker serves goes back to the floor.

Pure: told the counters, the local limits and the time, it returns the policies to write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from coordinator.core.model import NANOS_PER_SECOND, Dimension
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.entries import NOTHING, Amounts
from coordinator.native.engine.owners import home_of, is_replication, is_topic
from coordinator.native.engine.parts import NativePart, split
from coordinator.native.engine.rate_policy import (
    LEAST,
    NO_RATE,
    PolicyRate,
    higher_of,
    lower_of,
)
from coordinator.native.engine.sent import SentByTopic
from coordinator.native.engine.sets import GroupSet
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.topic_policy import TopicPolicy
from coordinator.native.engine.topic_rates import TopicRates

_FLOOR_PARTS: Final = 20
"""A broker's equal part of a limit is that many floors: as many topics may appear at once."""

_OUTGROWN_PERMILLE: Final = 900
"""A topic that uses this of its floor gets a rate of its own."""

_MOST_PERMILLE: Final = 900
"""A topic with this part of the most that it may get wants no more of its group's limit."""

_IDLE_NS: Final = 10 * NANOS_PER_SECOND
_WANTS_PERMILLE: Final = 1100
"""The demand of a native group is what it is sent times this, if no topic wants more."""

_MIXED_FOR_NS: Final = 30 * NANOS_PER_SECOND
"""After this time it is believed that a live sidecar has a gate, or does not write for its broker."""

_MISSING_NS: Final = 60 * NANOS_PER_SECOND
"""A topic that has no policy is asked for again after this time."""

_POLICIES_MAX: Final = 10_000
"""Topics with a rate of their own; more keep the floor."""

_DIMENSIONS: Final = (Dimension.DISPATCH_MESSAGES, Dimension.DISPATCH_BYTES)

_Parts = tuple[NativePart | None, NativePart | None]


class Due(NamedTuple):
    """A policy that is to be written.

    Args:
        topic: the topic.
        rate: its rate from then on.
        rises: whether any unit of it does.
        is_known: whether what an operator has set for it is known; if not, that is to be read first.
    """

    topic: str
    rate: PolicyRate
    rises: bool
    is_known: bool


class DispatchSteering:
    """All dispatch limits at one broker.

    Args:
        steering: knows the native groups and their local limits.
    """

    def __init__(self, steering: Steering) -> None:
        self._steering = steering
        self._sent = SentByTopic()
        self._policies: dict[str, TopicPolicy] = {}
        self._rates: dict[GroupSet, tuple[TopicRates, TopicRates]] = {}
        self._parts: dict[GroupSet, _Parts] = {}
        #: The homes of each set of groups, of these sets of the steering.
        self._homes: dict[GroupSet, list[str]] = {}
        self._sets: Mapping[str, GroupSet] = {}
        #: The namespaces' defaults: by their operators, and as they are in force.
        self._defaults: dict[str, PolicyRate] = {}
        self._floors: dict[str, PolicyRate] = {}
        #: When topics were found to have no policy.
        self._missing_ns: dict[str, int] = {}
        self._mixed_since_ns: int | None = None
        #: The limits that single topics have of their own, per partition.
        self._own_limits: dict[str, PolicyRate] = {}
        #: Whether topics may have floors; None until the sidecars of all brokers are known.
        self.has_floors: bool | None = None

    # What is told.

    def poll(self, counts: Iterable[TopicCount], elapsed_ns: int, now_ns: int) -> None:
        """Take a poll of the broker's counters."""
        if self._steering.behind_gate:
            return
        self._look_for_gates(now_ns)
        self._resolve()
        wanted = {home for groups in self._rates for home in self._homes[groups]}
        self._sent.poll(counts, wanted, elapsed_ns)
        self._look_for_idle(wanted, now_ns)
        counted = self._count(elapsed_ns, now_ns)
        for groups, native in self._steering.by_set.items():
            topics, unpaid = counted.get(groups, (0, NOTHING))
            native.set_dispatch(
                self._parts[groups], self._held(groups, now_ns), unpaid, now_ns, topics=topics
            )

    def set_own_limit(self, topic: str, limit: PolicyRate) -> None:
        """Take the limit that a topic has of its own, of each partition; `NO_RATE` for none."""
        if limit == NO_RATE:
            self._own_limits.pop(topic, None)
        else:
            self._own_limits[topic] = limit

    def default_found(self, namespace: str, by_operator: PolicyRate) -> None:
        """Take the default rate of a namespace's topics that its operator has set."""
        self._defaults[namespace] = by_operator

    def floor_in_force(self, namespace: str, rate: PolicyRate | None) -> None:
        """Take the default rate of a namespace's topics that is in force; None if it is not known."""
        if rate is None:
            self._floors.pop(namespace, None)
        else:
            self._floors[namespace] = rate

    def forget_namespace(self, namespace: str) -> None:
        """Forget a namespace that is limited no more."""
        self._defaults.pop(namespace, None)
        self._floors.pop(namespace, None)

    def found(
        self,
        topic: str,
        by_operator: PolicyRate,
        present: PolicyRate | None,
        now_ns: int,
        *,
        partitions: int = 0,
    ) -> None:
        """Take what is known of a topic.

        Args:
            topic: the topic.
            by_operator: the rate that an operator has set for it.
            present: that a sidecar has written since; None if none has.
            now_ns: the time.
            partitions: how many it has, at all brokers; 0 if it is not partitioned.
        """
        self._policies[topic] = TopicPolicy(by_operator, partitions)
        if present is not None and present != NO_RATE:
            self._policies[topic].written(present, now_ns, is_own=False)
            self._policies[topic].found_ns = now_ns
            self._note_rate(topic, present, now_ns)

    def written(self, topic: str, rate: PolicyRate, now_ns: int) -> None:
        """Take the news that a topic's rate was written."""
        known = self._policies.get(topic)
        if known is not None:
            known.written(rate, now_ns, is_own=True)
            self._note_rate(topic, rate, now_ns)

    def seen(self, topic: str, rate: PolicyRate, now_ns: int) -> bool:
        """Take the rate that a topic has now; tell whether an operator has just set it."""
        known = self._policies.get(topic)
        if known is None or known.rate in (None, rate):
            return False
        if known.partitions and rate == NO_RATE:
            self.forget(topic)  # it went back to the floor, as its consumers left
            return False
        # One that has a limit of its own is set again when others change it (topic_limiting.py).
        by_operator = known.seen(rate, now_ns, is_sidecars=topic in self._own_limits)
        self._note_rate(topic, rate, now_ns)
        return by_operator

    def missing(self, topic: str, now_ns: int) -> None:
        """Take the news that a topic has no policy, as one that is only named like a partition."""
        if len(self._missing_ns) >= _POLICIES_MAX:
            del self._missing_ns[next(iter(self._missing_ns))]
        self._missing_ns[topic] = now_ns

    def forget(self, topic: str) -> None:
        """Forget a topic that this broker serves no more, or that has its former rate again."""
        self._policies.pop(topic, None)
        for each in self._rates.values():
            for rates in each:
                rates.forget(topic)

    # What is asked.

    @property
    def is_limited(self) -> bool:
        """Whether dispatch of anything that is attached is limited."""
        return any(self._whole(groups) != NO_RATE for groups in self._steering.by_set)

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that count against any group."""
        return frozenset(self._steering.homes.namespaces)

    def floors(self) -> dict[str, PolicyRate]:
        """Return the floor that each namespace with a limit should have, `NO_RATE` for none."""
        self._resolve()
        found: dict[str, PolicyRate] = {}
        for groups, homes in self._homes.items():
            floor = self._floor_of(groups)
            if floor != NO_RATE and not self._steering.behind_gate:
                namespaces = [home for home in homes if home in self._steering.homes.namespaces]
                found |= dict.fromkeys(namespaces, floor if self.has_floors else NO_RATE)
        return found

    def due(self, now_ns: int) -> list[Due]:
        """Return the policies to write now, falls first."""
        self._resolve()  # limits may have changed since the last poll
        found: list[Due] = []
        for groups, all_rates in self._rates.items():
            found += self._due_of(groups, all_rates, now_ns)
        return sorted(found, key=lambda each: (each.rises, each.topic))

    def floor(self, namespace: str) -> PolicyRate | None:
        """Return the default rate of a namespace's topics that is in force; None if it is not known."""
        return self._floors.get(namespace)

    def default(self, namespace: str) -> PolicyRate:
        """Return the default rate of a namespace's topics that its operator has set, as far as known."""
        return self._defaults.get(namespace, NO_RATE)

    def own_limit(self, topic: str) -> PolicyRate:
        """Return the limit that a topic has of its own, of each partition; `NO_RATE` for none."""
        return self._own_limits.get(topic, NO_RATE)

    def idle_rate(self, owner: str) -> PolicyRate:
        """Return the rate of an owner that nothing consumes, if it has a limit of its own.

        It has the floor as well: of a topic its namespace's, of a subscription its group's.
        """
        limit = self.own_limit(owner)
        if limit == NO_RATE:
            return NO_RATE
        if is_topic(owner):
            return lower_of(limit, self._floors.get(home_of(owner), NO_RATE))
        groups = self._steering.homes.all.get(owner)
        if groups is None or not self.has_floors:
            return limit
        return lower_of(limit, self._floor_of(groups))

    def holds_dispatch(self, home: str) -> bool:
        """Return whether the owners of a home have parts of a group's limit."""
        groups = self._steering.homes.all.get(home)
        return groups is not None and self._whole(groups) != NO_RATE

    def is_parted(self, topic: str) -> bool:
        """Return whether a topic that is loaded here has partitions."""
        return self._sent.is_parted(topic)

    def idle(self, now_ns: int) -> tuple[str, ...]:
        """Return the topics here that have a rate, and have had no consumers for a while."""
        return tuple(
            topic
            for topic, policy in self._policies.items()
            if policy.idle_since_ns is not None and now_ns - policy.idle_since_ns >= _IDLE_NS
        )

    def written_topics(self) -> tuple[str, ...]:
        """Return the topics that a sidecar has written a rate for."""
        return tuple(name for name, each in self._policies.items() if each.rate is not None)

    def suspects(self) -> list[str]:
        """Return the topics that are sent far more than their rates: others may have written these."""
        found = (topic for each in self._rates.values() for rates in each for topic in rates.over())
        return list(dict.fromkeys(found))

    # Within.

    def _look_for_gates(self, now_ns: int) -> None:
        if self._steering.table.is_all_native:
            self.has_floors, self._mixed_since_ns = True, None
        elif self._mixed_since_ns is None:
            self._mixed_since_ns = now_ns
        elif now_ns - self._mixed_since_ns >= _MIXED_FOR_NS:
            self.has_floors = False

    def _resolve(self) -> None:
        if self._sets is not self._steering.homes.all:
            self._sets, self._homes = self._steering.homes.all, {}
            for home, groups in self._sets.items():
                self._homes.setdefault(groups, []).append(home)
        self._parts = dict(self._split())
        self._rates = {
            groups: self._rates.get(groups) or (TopicRates(), TopicRates())
            for groups, parts in self._parts.items()
            if any(parts)
        }

    def _split(self) -> Iterator[tuple[GroupSet, _Parts]]:
        natives = self._steering.by_set
        found: list[dict[GroupSet, NativePart | None]] = []
        for unit, dimension in enumerate(_DIMENSIONS):
            wants: dict[GroupSet, int | None] = {}
            for groups, native in natives.items():
                pacer = native.dispatched[unit]
                rate = pacer.rate * _WANTS_PERMILLE // 1000
                wants[groups] = None if pacer.held_permille else rate
            limits = {name: int(rate) for name, rate in self._steering.local(dimension).items()}
            found.append(split(limits, wants))
        for groups in natives:
            yield groups, (found[0][groups], found[1][groups])

    def _count(self, elapsed_ns: int, now_ns: int) -> dict[GroupSet, tuple[int, Amounts]]:
        """Count what topics with a rate were sent.

        Returns:
            By native group, how many there are, and how much more was paid for than they were sent in
            this time; less is below 0.
        """
        found: dict[GroupSet, tuple[int, Amounts]] = {}
        for topic, policy in self._policies.items():
            groups = self._steering.homes.all.get(home_of(topic))
            if policy.rate is None or groups is None:
                continue
            last = self._sent.last(topic)
            more = [
                rates.count(
                    topic, {name: sent[unit] for name, sent in last.items()}, elapsed_ns, now_ns
                )
                for unit, rates in enumerate(self._rates_of(topic))
            ]
            topics, so_far = found.get(groups, (0, NOTHING))
            found[groups] = topics + 1, Amounts(so_far[0] + more[0], so_far[1] + more[1])
        return found

    def _held(self, groups: GroupSet, now_ns: int) -> tuple[int, int]:
        """Return how many topics want more than their part of the group's limit, in each unit."""
        held = [0, 0]
        for unit, rates in enumerate(self._rates.get(groups, ())):
            for topic in rates.saturated(now_ns):
                policy, rate = self._policies.get(topic), rates.rate(topic)
                if policy is None or rate is None:
                    continue
                most = self._most(topic, groups, now_ns)[unit]
                may_rise = most is None or rate * 1000 < most * _MOST_PERMILLE
                # One that another sidecar has lowered is not held by this broker's limit.
                held[unit] += policy.is_own if policy.partitions else may_rise
        return held[0], held[1]

    def _due_of(
        self, groups: GroupSet, all_rates: tuple[TopicRates, TopicRates], now_ns: int
    ) -> Iterator[Due]:
        parts = self._parts[groups]
        uses, by_floors = self._uses_of(groups, now_ns)
        most = {topic: self._most(topic, groups, now_ns) for topic in uses}
        shared = {t for t in uses if (known := self._policies.get(t)) and known.partitions}
        decided: list[dict[str, int]] = [{}, {}]
        for unit, (part, rates) in enumerate(zip(parts, all_rates, strict=True)):
            if part is not None:
                decided[unit] = rates.decide(
                    max(0, part.rate - by_floors[unit]),
                    {t: {n: use[unit] for n, use in each.items()} for t, each in uses.items()},
                    {t: bound for t, rate in most.items() if (bound := rate[unit]) is not None},
                    shared,
                    now_ns,
                )
        for topic in uses:
            wanted = [
                None if part is None else changes.get(topic, rates.rate(topic))
                for part, rates, changes in zip(parts, all_rates, decided, strict=True)
            ]
            policy = self._policies.get(topic)
            present = None if policy is None else policy.rate
            waits = any(
                part is not None and rate is None for part, rate in zip(parts, wanted, strict=True)
            )
            if present is None and waits:
                continue  # the floor holds it until there is room
            rate = PolicyRate(*wanted)
            if present is None and topic in shared:
                # It comes down later, if the law leaves this broker no more than that.
                rate = higher_of(rate, self._floors.get(home_of(topic), most[topic]))
            rate = lower_of(rate, most[topic])
            if rate != present and (policy is None or policy.may_become(rate, now_ns)):
                rises = present is None or lower_of(rate, present) != rate
                yield Due(topic, rate, rises, policy is not None)

    def _uses_of(
        self, groups: GroupSet, now_ns: int
    ) -> tuple[dict[str, Mapping[str, Amounts]], Amounts]:
        """Return the uses of topics that have or need rates of their own, and the sum of all others'."""
        uses: dict[str, Mapping[str, Amounts]] = {}
        messages = size = 0
        for home in self._homes.get(groups, ()):
            floor = self._floors.get(home)
            for topic, each in self._sent.uses(home).items():
                is_missing = now_ns - self._missing_ns.get(topic, -_MISSING_NS) < _MISSING_NS
                has_room = len(self._policies) < _POLICIES_MAX and not is_missing
                needs_one = has_room and _outgrows(each, floor, self._parts[groups])
                if topic in self._policies or needs_one or (has_room and topic in self._own_limits):
                    uses[topic] = each
                else:
                    messages += sum(amounts.messages for amounts in each.values())
                    size += sum(amounts.bytes for amounts in each.values())
        return uses, Amounts(messages, size)

    def _most(self, topic: str, groups: GroupSet, now_ns: int) -> PolicyRate:
        default, policy = self.default(home_of(topic)), self._policies.get(topic)
        most = default if policy is None else policy.most(default, self._whole(groups), now_ns)
        return lower_of(most, self.own_limit(topic))

    def _whole(self, groups: GroupSet) -> PolicyRate:
        """Return the limit of all brokers together."""
        limits = self._steering.wholes.of(groups)
        return PolicyRate(limits.dispatch_messages, limits.dispatch_bytes)

    def _floor_of(self, groups: GroupSet) -> PolicyRate:
        parts = _FLOOR_PARTS * self._steering.table.members
        messages, size = (
            None if limit is None else max(LEAST, limit // parts) for limit in self._whole(groups)
        )
        return PolicyRate(messages, size)

    def _note_rate(self, topic: str, rate: PolicyRate, now_ns: int) -> None:
        for rates, amount in zip(self._rates_of(topic), rate, strict=True):
            if amount is None:
                rates.forget(topic)
            else:
                rates.written(topic, amount, now_ns)

    def _rates_of(self, topic: str) -> Iterable[TopicRates]:
        groups = self._steering.homes.all.get(home_of(topic), ())
        return self._rates.get(groups) or (TopicRates(), TopicRates())

    def _look_for_idle(self, homes: Collection[str], now_ns: int) -> None:
        """Forget topics that this broker serves no more, and note since when others have no consumers."""
        loaded: dict[str, bool] = {}
        for home in homes:
            uses = self._sent.uses(home)
            loaded |= {topic: topic in uses for topic in self._sent.loaded(home)}
        for topic in self._policies.keys() - loaded.keys():
            if is_replication(topic) and home_of(topic) not in homes:
                # Its cluster is limited no more, and nothing else gives its rate back.
                self._policies[topic].idle_since_ns = now_ns - _IDLE_NS
            else:
                self.forget(topic)
        for topic, policy in self._policies.items():
            if loaded.get(topic):
                policy.idle_since_ns = None
            elif policy.idle_since_ns is None:
                policy.idle_since_ns = now_ns


def _outgrows(uses: Mapping[str, Amounts], floor: PolicyRate | None, parts: _Parts) -> bool:
    """Return whether a topic needs a rate of its own: it uses its floor up, or has none."""
    if floor is None:
        return True
    for unit, part in enumerate(parts):
        if part is None:
            continue
        least = floor[unit]
        if (
            least is None
            or max(each[unit] for each in uses.values()) * 1000 >= least * _OUTGROWN_PERMILLE
        ):
            return True
    return False
