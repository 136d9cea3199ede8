"""The local limits in force and why each is what it is.

A decision is made anew only for groups whose facts changed (``mark``), and for those whose limit waits
to be raised. It is kept whole, so that "why is this limit what it is" has an answer that needs no
guessing: explain.py turns it into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from coordinator.core.allocation import Binding, Split, reserve_of
from coordinator.core.escrow import gifts, in_dimension, limit_of, of_dimension
from coordinator.core.ledgers import Ledgers
from coordinator.core.lifecycle import Lifecycle, Trouble
from coordinator.core.model import Dimension, Member, Rates, ResourceGroup
from coordinator.core.policies import ANNOUNCED, STRICT
from coordinator.core.settings import CoreSettings
from coordinator.core.splits import Splits
from coordinator.core.trouble import Troubles, limit_in_trouble
from coordinator.core.usage_map import UsageMap


@dataclass(frozen=True, slots=True)
class Decision:
    """One local limit with its reason; ``split`` is None where the law was not asked."""

    local_limit: int | None
    binding: Binding
    round: int
    decided_ns: int
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a decision is made from, besides the group itself."""

    members: Mapping[str, Member]
    usage: UsageMap
    splits: Splits
    troubles: Troubles
    lifecycle: Lifecycle
    round: int
    now_ns: int


class Decider:
    """Decides the local limits of this broker."""

    def __init__(self, settings: CoreSettings, ledgers: Ledgers) -> None:
        self._settings = settings
        self._ledgers = ledgers
        #: The local limits in force, by group.
        self.in_force: dict[str, Rates] = {}
        #: The latest decision per group and dimension.
        self.decisions: dict[tuple[str, Dimension], Decision] = {}
        self._marked: set[str] = set()
        self._all_marked = False
        #: Since when a higher limit is wanted; these are looked at again every time.
        self._wanted_ns: dict[tuple[str, Dimension], int] = {}

    def mark(self, groups: Iterable[str]) -> None:
        """The facts of these groups changed."""
        self._marked.update(groups)

    def mark_all(self) -> None:
        """The facts of every group changed."""
        self._all_marked = True

    def forget(self, group: str) -> None:
        """The group is gone."""
        self.in_force.pop(group, None)
        for dimension in Dimension:
            self.decisions.pop((group, dimension), None)
            self._wanted_ns.pop((group, dimension), None)

    def decide(
        self,
        groups: Mapping[str, ResourceGroup],
        members: Mapping[str, Member],
        usage: UsageMap,
        troubles: Troubles,
        lifecycle: Lifecycle,
        round_: int,
        now_ns: int,
    ) -> list[str]:
        """Decide what is due and return the groups whose limits in force changed, sorted."""
        splits = Splits(members, usage, self._settings)
        facts = _Facts(members, usage, splits, troubles, lifecycle, round_, now_ns)
        names = set(groups) if self._all_marked else self._marked & groups.keys()
        names |= {group for group, _ in self._wanted_ns}
        self._marked = set()
        self._all_marked = False
        return [name for name in sorted(names) if self._decide_group(groups[name], facts)]

    def _decide_group(self, group: ResourceGroup, facts: _Facts) -> bool:
        held = self.in_force.get(group.name)
        rates: dict[Dimension, int | None] = {}
        for dimension in Dimension:
            own = held.of(dimension) if held is not None else None
            decision = self._decide_dimension(group, dimension, own, facts)
            self.decisions[group.name, dimension] = decision
            rates[dimension] = decision.local_limit
        self.in_force[group.name] = Rates.from_mapping(rates)
        return self.in_force[group.name] != held

    def _decide_dimension(
        self, group: ResourceGroup, dimension: Dimension, own: int | None, facts: _Facts
    ) -> Decision:
        limit = group.limits.of(dimension)
        if limit is None:
            self._wanted_ns.pop((group.name, dimension), None)
            return Decision(None, Binding.UNLIMITED, facts.round, facts.now_ns)
        if group.overshoot_policy == STRICT:
            self._wanted_ns.pop((group.name, dimension), None)
            return self._hold_in_escrow(group, dimension, limit, own, facts)
        reserve = reserve_of(limit, len(facts.members), self._settings)
        held = min(limit, reserve if own is None else own)
        if facts.lifecycle in (Lifecycle.STARTING, Lifecycle.LEARNING):
            return Decision(min(held, reserve), Binding.RESERVE, facts.round, facts.now_ns)
        answer = facts.splits.of(group, dimension)
        if facts.lifecycle is Lifecycle.ACTIVE and self._settings.broker in facts.members:
            return self._transfer(group, dimension, held, answer, facts)
        self._wanted_ns.pop((group.name, dimension), None)
        in_trouble = limit_in_trouble(
            min(held, answer.targets.get(self._settings.broker, held)),
            limit,
            len(facts.members),
            facts.troubles,
            group.partition_policy,
            self._settings.hold_ns,
            facts.now_ns,
        )
        return Decision(in_trouble, Binding.DEGRADED, facts.round, facts.now_ns, answer)

    def _transfer(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        held: int,
        answer: Split,
        facts: _Facts,
    ) -> Decision:
        broker = self._settings.broker
        target = answer.target_of(broker)
        key = (group.name, dimension)
        local = held
        if target <= held:
            self._wanted_ns.pop(key, None)
            local = target
        else:
            wanted_ns = self._wanted_ns.setdefault(key, facts.now_ns)
            if self._may_raise(group, answer, facts, wanted_ns):
                local = self._raise(group, held, answer)
            if local == target:
                del self._wanted_ns[key]
        return Decision(local, answer.binding_of(broker, local), facts.round, facts.now_ns, answer)

    def _raise(self, group: ResourceGroup, held: int, answer: Split) -> int:
        """What the policy lets this broker hold, on its way to a higher target."""
        broker = self._settings.broker
        policy = ANNOUNCED[group.overshoot_policy]
        # Members that take no part hold their reserves and want nothing else: they need not be listed.
        idle = answer.idle if broker in answer.claims else answer.idle - 1
        in_force = {**answer.in_force, broker: held}
        targets = {**answer.targets, broker: answer.target_of(broker)}
        return policy(answer.limit - idle * answer.reserve, broker, targets, in_force)

    def _may_raise(
        self, group: ResourceGroup, answer: Split, facts: _Facts, wanted_ns: int
    ) -> bool:
        """Whether the others had time to say that they want the same, and were heard of late."""
        if group.overshoot_policy == "eager":
            return True
        return facts.now_ns - wanted_ns >= self._settings.raise_delay_ns and all(
            facts.usage.is_current(broker, facts.now_ns)
            for broker in answer.claims
            if broker != self._settings.broker
        )

    def _hold_in_escrow(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        limit: int,
        own: int | None,
        facts: _Facts,
    ) -> Decision:
        """Strict: exactly what the books say, after giving away what is more than the target."""
        if not self._ledgers.is_open or Trouble.ZOOKEEPER_LOST in facts.troubles:
            return Decision(0, Binding.DEGRADED, facts.round, facts.now_ns)
        held = self._ledgers.holding(group.name)
        if held is None:  # the group has just become strict: stay until its ledger is founded
            local = min(own or 0, limit)
            return Decision(local, Binding.GATE, facts.round, facts.now_ns)
        broker = self._settings.broker
        if broker not in facts.members:
            local = limit_of(of_dimension(dimension, held), limit)
            return Decision(local, Binding.DEGRADED, facts.round, facts.now_ns)
        holdings = {
            name: of_dimension(dimension, parts)
            for name, parts in self._ledgers.holdings(group.name).items()
            if name in facts.members
        }
        answer = facts.splits.of(group, dimension)
        in_force = {name: limit_of(parts, limit) for name, parts in holdings.items()}
        answer = replace(answer, in_force={**answer.in_force, **in_force})
        if facts.lifecycle is Lifecycle.ACTIVE:
            targets = {name: answer.target_of(name) for name in holdings}
            for name, parts in gifts(limit, broker, targets, holdings).items():
                self._ledgers.give(group.name, name, in_dimension(dimension, parts))
                holdings[broker] -= parts
        local = limit_of(holdings[broker], limit)
        degraded = facts.lifecycle is Lifecycle.DEGRADED
        binding = Binding.DEGRADED if degraded else answer.binding_of(broker, local)
        return Decision(local, binding, facts.round, facts.now_ns, answer)
