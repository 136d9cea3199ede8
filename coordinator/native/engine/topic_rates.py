"""A broker's part of a dispatch limit, split among the topics that it serves, with few writes.

Pulsar holds a dispatch rate for every topic (its policy ``dispatchRate``) with a token bucket at the
broker that serves it; all subscriptions of the topic share it. So a group's part is held by rates of its
topics that add up to it:

* **Targets** are max-min fair by demand. A topic that uses nearly all of its rate may want any amount;
  of another one the demand is its use and a fifth more. What is left over is shared equally, so that a
  topic whose clients begin to want more has room at once.
* **Few writes.** A write is a request to the broker, and an event that all brokers with topics of the
  namespace read; and a rate that rises begins with a full bucket, a second's worth at once. So a rate is
  lowered when the rates would add up to more than the part otherwise, those first that are furthest above
  their targets; and raised when its topic needs it and it is far below its target, or a little for long.
  Everything else stays as it is.
* **Falls before rises.** A rise waits until the falls that make room for it are in force.
* **Debts.** Pulsar reads as many entries as it has tokens, and an entry may be a batch of many messages:
  so a topic is sent several seconds' worth at once, and then nothing until its bucket has made up for
  that. A write forgets what the topic owes. So one that owes something wants more, whatever it is sent
  now; its rate is not written meanwhile; and what it was sent is counted as it is paid for.
* **Partitions** of a topic have one policy, and so one rate each. It is that of the partition with the
  most demand here; the others count with what they want. Partitions at other brokers are other sidecars',
  so such a topic is *shared*: its rate is lowered only if the excess lasts, as the law may give this
  broker more for what it uses, and a rate that is lowered here lowers all the others.

Pulsar's least rate is one a second, as it takes 0 for no limit: with more topics than that the part
cannot be held, and each has one.

Pure: told the uses and the time, it returns the rates to write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.allocation.laws.claims import Claim
from coordinator.core.allocation.laws.water_filling import max_min
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.rate_policy import LEAST

_SATURATED_PERMILLE: Final = 900
"""A topic with this use of its rate may want more."""

_SATURATED_FOR_NS: Final = 3 * NANOS_PER_SECOND
"""It may for this time after that, too: batches are sent in lumps of up to two seconds' worth."""

_WANTS_PERMILLE: Final = 1200
"""The demand of any other topic, by its use."""

_FAR_PERMILLE: Final = 900
"""A rate below this part of its target is raised, if its topic needs it."""

_NEAR_PERMILLE: Final = 985
_NEAR_FOR_NS: Final = 10 * NANOS_PER_SECOND
"""One that is a little below it, after this time."""

_EXCESS_PERMILLE: Final = 20
_EXCESS_FOR_NS: Final = 5 * NANOS_PER_SECOND
"""Rates that add up to this much more than the part are lowered at once, others after this time."""

_IN_FORCE_NS: Final = 600_000_000
"""A rate that was written is in force after this time at the latest: 0.2 to 0.6 s were measured."""

_OWES_PERMILLE: Final = 600
"""A topic that has not paid for this much of a second's worth owes something."""

_FORGIVEN_PERMILLE: Final = 100
"""A debt of this part of a second's worth of the new rate is let go."""

_OVER_S: Final = 3
"""Seconds' worth that a topic may owe before others are suspected to have written its rate."""

_PAID_WITHIN_NS: Final = 30 * NANOS_PER_SECOND
"""All that was sent is counted as paid within this time, however low the rate is now."""

_DEFERRED_NS: Final = 10 * NANOS_PER_SECOND
"""A rate that is far from its target is written after this time, whatever its topic owes."""

_SHARED_FOR_NS: Final = 5 * NANOS_PER_SECOND
_SHARED_PERMILLE: Final = 100
"""The rate of a shared topic is lowered after this time, and for this excess."""

Demands = Mapping[str, Mapping[str, int | None]]
"""The demand of each partition, by topic and by the partition's full name; None is unbounded."""


@dataclass(slots=True)
class _Topic:
    """One topic.

    Args:
        rate: of each of its partitions, as written last, per second.
        before: the rate that may be in force instead, until ``since_ns`` is long enough ago.
        since_ns: when it was written.
        debts: of its partitions here, by name.
    """

    rate: int
    before: int
    since_ns: int
    debts: dict[str, _Debt] = field(default_factory=dict)

    @property
    def owed(self) -> int:
        """The most that a partition owes."""
        return max((debt.owed for debt in self.debts.values()), default=0)

    def at_most(self, now_ns: int) -> int:
        """Return the highest rate that may be in force."""
        return self.rate if now_ns - self.since_ns >= _IN_FORCE_NS else max(self.rate, self.before)


@dataclass(slots=True)
class _Debt:
    """The messages, or bytes, that a partition was sent beyond its rate.

    Args:
        owed: as Pulsar keeps it since the rate was written.
        unpaid: and is not counted yet.
    """

    owed: int = 0
    unpaid: int = 0


class TopicRates:
    """The rates of one group's topics at one broker, in one unit."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        #: Until when each partition of a topic may want any amount.
        self._saturated_until_ns: dict[str, dict[str, int]] = {}
        #: Since when a rate is not written, as its topic owes something.
        self._deferred_ns: dict[str, int] = {}
        #: What topics that are forgotten have not paid for.
        self._left = 0
        #: Since when the rates add up to more than the part; None if they do not.
        self._excess_since_ns: int | None = None

    def rate(self, topic: str) -> int | None:
        """Return a topic's rate as written last; None if it has none."""
        known = self._topics.get(topic)
        return None if known is None else known.rate

    def forget(self, topic: str) -> None:
        """Forget a topic that this broker serves no more, or that is limited no more."""
        known = self._topics.pop(topic, None)
        if known is not None:
            self._left += sum(debt.unpaid for debt in known.debts.values())

    def written(self, topic: str, rate: int, now_ns: int) -> None:
        """Take the news that a rate was written; of a topic that is new, that it had none before."""
        known = self._topics.get(topic)
        if known is None:
            self._topics[topic] = _Topic(rate, rate, now_ns)
        elif known.rate != rate:
            known.rate, known.before, known.since_ns = rate, known.at_most(now_ns), now_ns
            for debt in known.debts.values():
                debt.owed = 0

    def saturated(self, now_ns: int) -> frozenset[str]:
        """Return the topics of which a partition may want more than it has."""
        until = self._saturated_until_ns.items()
        return frozenset(name for name, each in until if now_ns < max(each.values()))

    def count(self, topic: str, sent: Mapping[str, int], elapsed_ns: int, now_ns: int) -> int:
        """Take what each partition of a topic was sent in this time.

        Returns:
            How much more was paid for; less is below 0.
        """
        more, self._left = self._left, 0
        known = self._topics.get(topic)
        if known is None:
            return more
        due = known.rate * elapsed_ns // NANOS_PER_SECOND
        is_settled = now_ns - elapsed_ns >= known.since_ns + _IN_FORCE_NS
        for name, amount in sent.items():
            debt = known.debts.setdefault(name, _Debt())
            if is_settled:
                debt.owed = max(0, debt.owed + amount - due)
            unpaid = debt.unpaid + amount
            paid = min(unpaid, max(due, unpaid * elapsed_ns // _PAID_WITHIN_NS))
            debt.unpaid = unpaid - paid
            more += paid - amount
        return more

    def over(self) -> list[str]:
        """Return the topics that were sent several seconds' worth more than their rates."""
        return [name for name, topic in self._topics.items() if topic.owed > topic.rate * _OVER_S]

    def decide(
        self,
        part: int,
        uses: Mapping[str, Mapping[str, int]],
        most: Mapping[str, int],
        shared: Collection[str],
        now_ns: int,
    ) -> dict[str, int]:
        """Return the rates to write now, falls first.

        Args:
            part: of the group's limit at this broker, per second.
            uses: what each of its topics here is sent, per second, by the names of its partitions.
            most: the highest rate of each topic that has one.
            shared: the topics of which other brokers may serve partitions, too.
            now_ns: the time.
        """
        for name in self._topics.keys() - uses.keys():
            self.forget(name)
        wants = self._wants(uses, now_ns)
        targets = split(part, wants, most)
        targets |= self._kept(targets, now_ns)
        costs = _Costs(wants)
        rises = {
            name: target
            for name, target in targets.items()
            if self._rises(name, target, max(uses[name].values()), now_ns, is_shared=name in shared)
        }
        falls = self._falls(part, targets, rises, costs, shared, now_ns)
        in_force = {name: topic.at_most(now_ns) for name, topic in self._topics.items()}
        room = part - sum(costs.of(name, rate) for name, rate in in_force.items())
        is_full = bool(falls) or any(in_force[n] > t.rate for n, t in self._topics.items())
        return falls | self._affordable(rises, room, costs, is_full=is_full)

    def _kept(self, targets: Mapping[str, int], now_ns: int) -> dict[str, int]:
        """Return the rates that are not to be written now, as their topics owe something."""
        kept: dict[str, int] = {}
        deferred: dict[str, int] = {}
        for name, target in targets.items():
            known = self._topics.get(name)
            if known is None:
                continue
            if (
                not _FAR_PERMILLE * target
                <= known.rate * 1000
                <= target * 1_000_000 // _FAR_PERMILLE
            ):
                deferred[name] = self._deferred_ns.get(name, now_ns)
            is_late = name in deferred and now_ns - deferred[name] >= _DEFERRED_NS
            owes = known.owed * 1000 > known.rate * _OWES_PERMILLE
            if owes and known.owed * 1000 > target * _FORGIVEN_PERMILLE and not is_late:
                kept[name] = known.rate
        self._deferred_ns = deferred
        return kept

    def _wants(self, uses: Mapping[str, Mapping[str, int]], now_ns: int) -> Demands:
        before, self._saturated_until_ns = self._saturated_until_ns, {}
        wants: dict[str, dict[str, int | None]] = {}
        for name, each in uses.items():
            topic = self._topics.get(name)
            until = self._saturated_until_ns[name] = dict(before.get(name, {}))
            wants[name] = {}
            for partition, use in each.items():
                debt = None if topic is None else topic.debts.get(partition)
                owes = debt is not None and debt.owed > 0
                if topic is None or owes or use * 1000 >= topic.rate * _SATURATED_PERMILLE:
                    until[partition] = now_ns + _SATURATED_FOR_NS
                is_unbounded = until.setdefault(partition, now_ns) > now_ns
                demand = None if is_unbounded else max(LEAST, use * _WANTS_PERMILLE // 1000)
                wants[name][partition] = demand
        return wants

    def _rises(self, name: str, target: int, use: int, now_ns: int, *, is_shared: bool) -> bool:
        topic = self._topics.get(name)
        if topic is None:
            return True
        is_long_ago = now_ns - topic.since_ns >= _NEAR_FOR_NS and not is_shared
        near = topic.rate * 1000 < target * (_NEAR_PERMILLE if is_long_ago else _FAR_PERMILLE)
        return near and use * _WANTS_PERMILLE >= topic.rate * _SATURATED_PERMILLE

    def _falls(
        self,
        part: int,
        targets: Mapping[str, int],
        rises: Mapping[str, int],
        costs: _Costs,
        shared: Collection[str],
        now_ns: int,
    ) -> dict[str, int]:
        """Return as many lower rates as are needed, those first that are furthest above their targets."""
        kept = {n: topic.rate for n, topic in self._topics.items() if n not in rises}
        excess = sum(costs.of(n, rate) for n, rate in {**kept, **rises}.items()) - part
        if excess <= 0:
            self._excess_since_ns = None
            return {}
        if self._excess_since_ns is None:
            self._excess_since_ns = now_ns
        for_ns = now_ns - self._excess_since_ns
        if not rises and for_ns < _EXCESS_FOR_NS and excess * 1000 <= part * _EXCESS_PERMILLE:
            return {}
        is_much = excess * 1000 > part * _SHARED_PERMILLE
        may_lower_shared = for_ns >= _SHARED_FOR_NS and is_much
        above = {
            name: rate - targets[name]
            for name, rate in kept.items()
            if rate > targets[name] and (name not in shared or may_lower_shared)
        }
        falls: dict[str, int] = {}
        for name in sorted(above, key=lambda each: (-above[each], each)):
            if excess <= 0:
                break
            falls[name] = targets[name]
            excess -= costs.of(name, kept[name]) - costs.of(name, targets[name])
        return falls

    def _affordable(
        self, rises: Mapping[str, int], room: int, costs: _Costs, *, is_full: bool
    ) -> dict[str, int]:
        """Return the rises that there is room for; if no more will come, new topics get what there is."""
        found: dict[str, int] = {}
        for name in sorted(rises, key=lambda each: (rises[each], each)):
            present = self.rate(name) or 0
            cost = costs.of(name, rises[name]) - costs.of(name, present)
            if cost <= room:
                found[name] = rises[name]
            elif name not in self._topics and not is_full:
                found[name] = max(LEAST, rises[name] * max(0, room) // cost)
                cost = costs.of(name, found[name])
            else:
                continue
            room -= cost
        return found


class _Costs:
    """The traffic that the rate of a topic allows all of its partitions here.

    Args:
        wants: demand of each partition; None is unbounded.
    """

    def __init__(self, wants: Demands) -> None:
        self._wants = {
            name: sorted(each.values(), key=lambda want: (want is not None, -(want or 0)))
            for name, each in wants.items()
        }

    def of(self, name: str, rate: int) -> int:
        """Return it: all of the partition with the most demand, and of the others what they want."""
        others = self._wants[name][1:]
        return rate + sum(rate if want is None else min(rate, want) for want in others)


def split(part: int, wants: Demands, most: Mapping[str, int]) -> dict[str, int]:
    """Return the rate of each topic: that of the partition with the highest of the max-min fair rates.

    The rates of partitions add up to the part, if it has the least rate for each and all may have more.

    Args:
        part: to be split, per second.
        wants: demands of the partitions.
        most: the most that each partition of a topic may have, of those that are bounded.
    """
    bounds = {name: most.get(topic) for topic, each in wants.items() for name in each}
    demands = {name: want for each in wants.values() for name, want in each.items()}
    rates = dict.fromkeys(demands, LEAST)
    for ends in (demands, dict.fromkeys(demands)):
        more: dict[str, int | None] = {}
        for name, rate in rates.items():
            end = min((e for e in (ends[name], bounds[name]) if e is not None), default=None)
            more[name] = None if end is None else max(0, end - rate)
        left = max(0, part - sum(rates.values()))
        targets = max_min(left, {name: Claim(want) for name, want in more.items()}).targets
        for name, want in more.items():
            rates[name] += targets[name] if want is None else min(want, targets[name])
    return {topic: max(rates[name] for name in each) for topic, each in wants.items()}
