"""The local limits in force, and the passes in which they are decided.

A decision is made anew only for groups whose facts changed (``mark``); the last missing answer to a raise
is such a fact (transfer/raise_protocol.py). Each limit goes one of six ways:

=========================================  ===========================================================
no limit                                   unlimited
``strict``, outside trees                  what the books say (booked.py)
starting or learning                       at most the reserve
active, without participants               the reserve
active                                     towards the law's target (moving.py)
degraded                                   the fraction of the shared sum that it was (degraded.py)
=========================================  ===========================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from coordinator.core.allocation.forest import Forest
from coordinator.core.allocation.parts import Parts
from coordinator.core.allocation.splits import Splits
from coordinator.core.allocation.splitting import Binding, Split
from coordinator.core.decisions.booked import decide_booked
from coordinator.core.decisions.decision import Decision, within
from coordinator.core.decisions.degraded import decide_degraded
from coordinator.core.decisions.facts import DecisionFacts, LimitInForce
from coordinator.core.decisions.moving import MovingLimits
from coordinator.core.degradation import Degradations
from coordinator.core.demand.observing import is_observed
from coordinator.core.escrow.escrow import Escrow
from coordinator.core.escrow.lease import Lease
from coordinator.core.escrow.quota import Quotas
from coordinator.core.escrow.tree_quota import TreeFacts, TreeQuotas
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    AnyRates,
    Dimension,
    LimitKey,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    with_fractions,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import STRICT
from coordinator.core.transfer.raise_protocol import Raises
from coordinator.core.transfer.tree_room import TreeRoom
from coordinator.core.usage.map import UsageMap


class Decider:
    """Decide the local limits of this broker.

    Args:
        settings: the core's.
        escrow: the books of strict groups.
        lease: the time until which the books may be used.
        raises: the raises that wait for the others.
        capped: the brokers, by limit, whose announced limits are capped; its owner keeps it up to
            date (reports/plausibility.py).
    """

    def __init__(
        self,
        settings: CoreSettings,
        escrow: Escrow,
        lease: Lease,
        raises: Raises,
        capped: Mapping[LimitKey, AbstractSet[str]],
    ) -> None:
        self._settings = settings
        self._quotas = Quotas(settings.broker, escrow, lease)
        #: This broker's quotas of the strict roots of trees.
        self.tree_quotas = TreeQuotas(settings.broker, self._quotas)
        self._capped = capped
        self._moving = MovingLimits(raises, capped)
        #: The trees of groups; their owner replaces them with the definitions.
        self.forest = Forest()
        #: The parts of the latest pass: each tree is shared out once for all questions.
        self._parts: Parts | None = None
        #: The local limits in force, by group.
        self.in_force: dict[str, Rates] = {}
        #: The groups whose limits are this broker's only until the end of its lease.
        self.leased: set[str] = set()
        #: The groups whose limits are not enforced.
        self.observed: set[str] = set()
        #: The latest decision per group and dimension.
        self.decisions: dict[LimitKey, Decision] = {}
        #: The number of passes, and where the last pass decided another limit or another cause.
        self.passes = 0
        self.redecided: list[LimitKey] = []
        self._marked: set[str] = set()
        self._all_marked = False
        self._reborn = False

    def restart(self) -> None:
        """Begin a new incarnation: it holds no more than its reserves, even while degraded."""
        self._reborn = self._all_marked = True

    def split_of(self, key: LimitKey) -> Split | None:
        """Return the split that the latest decision was made from."""
        decision = self.decisions.get(key)
        return None if decision is None else decision.split

    def split_now(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        groups: Mapping[str, ResourceGroup],
        members: Mapping[str, Member],
        usage: UsageMap,
    ) -> Split:
        """Split a group's limit, or its part of a tree, by these facts; nothing is decided.

        Args:
            group: a definition of one of the groups, maybe with other settings.
            dimension: one that it limits.
            groups: all of them.
            members: all live brokers.
            usage: their reports.
        """
        parts = None if group.entitled is None else self.parts_now(groups, members, usage)
        return Splits(members, usage, self._settings, parts).of(group, dimension)

    def parts_now(
        self, groups: Mapping[str, ResourceGroup], members: Mapping[str, Member], usage: UsageMap
    ) -> Parts:
        """Return the parts of the groups of all trees that the latest decisions were made from."""
        if self._parts is None or self._parts.forest is not self.forest:
            self._parts = Parts(self.forest, groups, members, usage, self._settings)
        return self._parts

    def mark(self, groups: Iterable[str]) -> None:
        """Note that the facts of these groups changed."""
        self._marked.update(groups)

    def mark_all(self) -> None:
        """Note that the facts of every group changed."""
        self._all_marked = True

    @property
    def is_marked(self) -> bool:
        """Return whether facts changed that no decision has taken in yet."""
        return self._all_marked or bool(self._marked)

    def enforced(self, group: str) -> AnyRates:
        """Return the local limits of a group with their fractions, if they have any."""
        whole = self.in_force.get(group, Rates())
        found = ((each, self.decisions.get((group, each))) for each in Dimension)
        fractions = tuple(
            (each, decision.fraction) for each, decision in found if decision and decision.fraction
        )
        return with_fractions(whole, fractions)

    def forget(self, group: str) -> None:
        """Forget a deleted group."""
        self.in_force.pop(group, None)
        self.leased.discard(group)
        self.observed.discard(group)
        for dimension in Dimension:
            self.decisions.pop((group, dimension), None)
        self._moving.forget(group)

    def decide(
        self,
        groups: Mapping[str, ResourceGroup],
        members: Mapping[str, Member],
        usage: UsageMap,
        degradations: Degradations,
        lifecycle: Lifecycle,
        round_: int,
        now_ns: int,
    ) -> dict[str, Rates | None]:
        """Decide what is due; return the groups whose limits changed, with the former limits.

        They are in the order in which they are to be enforced: below a strict root the raised ones come
        last, as one group has the room that another one gives up.
        """
        self.tree_quotas.keep(self.forest.strict)
        names = self._take_marked(groups)
        if not names:
            return {}
        self.passes += 1
        self.redecided = []
        parts = tree_room = None
        if self.forest:
            parts = self._parts = Parts(self.forest, groups, members, usage, self._settings)
        splits = Splits(members, usage, self._settings, parts)
        if self.forest:
            tree_room = TreeRoom(
                self.forest, groups, members, usage, splits, self._capped, self._settings
            )
        facts = DecisionFacts(
            settings=self._settings,
            members=members,
            usage=usage,
            splits=splits,
            degradations=degradations,
            lifecycle=lifecycle,
            round=round_,
            now_ns=now_ns,
            in_force=self.in_force,
            tree_room=tree_room,
            reborn=self._reborn,
        )
        self._reborn = False
        if lifecycle not in (Lifecycle.STARTING, Lifecycle.LEARNING):
            splits.prepare(
                [
                    (groups[name], monitoring_class)
                    for name in names
                    for monitoring_class in MonitoringClass
                    if usage.takes_part(name, monitoring_class)
                ]
            )
        if self.forest.strict:
            self._share_quotas(self.forest.strict & names, groups, facts)
        changed = {}
        for name in sorted(names):
            held = self.in_force.get(name)
            if self._decide_group(groups[name], facts):
                changed[name] = held
        if not self.forest.strict:
            return changed
        return dict(sorted(changed.items(), key=lambda each: self._is_raised(*each)))

    def _take_marked(self, groups: Mapping[str, ResourceGroup]) -> AbstractSet[str]:
        """Return the groups that are due, and begin to note changes anew."""
        marked = self.forest.kin_of_all(self._marked) if self.forest else self._marked
        names = set(groups) if self._all_marked else marked & groups.keys()
        self._marked = set()
        self._all_marked = False
        return names

    def _is_raised(self, name: str, before: Rates | None) -> bool:
        """Return whether a limit below a strict root has just been raised in any dimension."""
        if self.forest.strict_root(name) is None:
            return False
        now, former = self.in_force[name], before or Rates()
        return any((now.of(each) or 0) > (former.of(each) or 0) for each in Dimension)

    def _decide_group(self, group: ResourceGroup, facts: DecisionFacts) -> bool:
        """Decide all limits of a group; return whether what is enforced changed."""
        held = self.in_force.get(group.name)
        rates: dict[Dimension, int | None] = {}
        changed = False
        for dimension in Dimension:
            key = (group.name, dimension)
            before = self.decisions.get(key)
            limit = LimitInForce(
                group, dimension, None if held is None else held.of(dimension), before
            )
            decision = within(self._decide_limit(limit, facts), facts.shares.get(key))
            self.decisions[key] = decision
            if (
                before is None
                or before.local_limit != decision.local_limit
                or before.binding is not decision.binding
                or before.fraction != decision.fraction
            ):
                self.redecided.append(key)
                changed |= before is not None and before.fraction != decision.fraction
            self._moving.note(limit, decision.local_limit, facts)
            rates[dimension] = decision.local_limit
        self.in_force[group.name] = Rates.from_mapping(rates)
        changed |= self.in_force[group.name] != held
        leased = self._quotas.is_leased(self._books_of(group))
        if leased is not (group.name in self.leased):
            self.leased ^= {group.name}
            changed = True
        if is_observed(group) is not (group.name in self.observed):
            self.observed ^= {group.name}
            changed = True
        return changed

    def _books_of(self, group: ResourceGroup) -> str | None:
        """Return the group by whose books this broker may admit traffic of a group."""
        if group.name in self.forest:
            return self.forest.strict_root(group.name)
        return group.name if group.overshoot_policy == STRICT else None

    def _share_quotas(
        self, roots: AbstractSet[str], groups: Mapping[str, ResourceGroup], facts: DecisionFacts
    ) -> None:
        tree_facts = TreeFacts(
            groups=groups,
            forest=self.forest,
            splits=facts.splits,
            parts=self.parts_now(groups, facts.members, facts.usage),
            in_force=self.in_force,
            members=facts.members,
            now_ns=facts.now_ns,
            active=facts.lifecycle is Lifecycle.ACTIVE,
            lost=facts.is_lost,
        )
        for root in sorted(roots):
            facts.shares.update(self.tree_quotas.share(root, tree_facts))

    def _decide_limit(self, limit: LimitInForce, facts: DecisionFacts) -> Decision:
        """Decide one limit; the module's head has the table."""
        group, dimension, _, _ = limit
        whole = group.limits.of(dimension)
        is_booked = group.overshoot_policy == STRICT and group.entitled is None
        takes_part = facts.usage.takes_part(group.name, dimension.monitoring_class)
        if whole is not None and not is_booked and takes_part and facts.is_active:
            return self._moving.decide(limit, whole, facts)
        self._moving.stay(limit.key)
        if whole is None:
            return facts.decision(None, Binding.UNLIMITED)
        if is_booked:
            return decide_booked(limit, self._quotas, facts)
        reserve = facts.reserve(limit)
        if facts.lifecycle in (Lifecycle.STARTING, Lifecycle.LEARNING):
            return facts.decision(min(facts.held(limit), reserve), Binding.RESERVE)
        if facts.is_active:
            # It holds its reserve whatever the others report, and all members count on that: no
            # question and no announcement is needed.
            return facts.decision(reserve, Binding.RESERVE)
        # Without taking part it holds no more than its reserve while degraded either.
        return decide_degraded(limit, whole if takes_part else reserve, facts)
