"""The local limits in force, and how they are decided.

A decision is made anew only for groups whose facts changed (``mark``); the last missing answer to a raise
is such a fact (transfer/raise_protocol.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from coordinator.core.allocation.forest import Forest
from coordinator.core.allocation.parts import Parts
from coordinator.core.allocation.splits import Splits
from coordinator.core.allocation.splitting import (
    NO_FRACTION,
    WHOLE_FROM,
    Binding,
    Split,
    reserve_in,
)
from coordinator.core.decision import Decision, lasting, within
from coordinator.core.degradation import Degradations, degraded_limit
from coordinator.core.demand.observing import is_observed
from coordinator.core.escrow.books import fraction_of, limit_of
from coordinator.core.escrow.escrow import Escrow
from coordinator.core.escrow.lease import Lease
from coordinator.core.escrow.quota import Quotas
from coordinator.core.escrow.tree_quota import TreeFacts, TreeQuotas
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import (
    AnyRates,
    Dimension,
    LimitKey,
    Member,
    MonitoringClass,
    Rate,
    Rates,
    ResourceGroup,
    with_fractions,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import EAGER, STRICT, ceiling, room
from coordinator.core.transfer.raise_protocol import Raises
from coordinator.core.transfer.tree_room import TreeRoom
from coordinator.core.usage.map import UsageMap


@dataclass(frozen=True, slots=True)
class _Facts:
    """The input of a decision, besides the group itself."""

    members: Mapping[str, Member]
    usage: UsageMap
    splits: Splits
    degradations: Degradations
    lifecycle: Lifecycle
    round: int
    now_ns: int
    #: The room in the trees of groups; None if there are none.
    tree_room: TreeRoom | None
    #: Whether this is the first decision of a new incarnation.
    reborn: bool
    #: The most that a leaf below a strict root may have of this broker's quota.
    shares: dict[LimitKey, int] = field(default_factory=dict)


class Decider:
    """Decide the local limits of this broker.

    Args:
        settings: the core's.
        escrow: the books of strict groups.
        lease: the time until which the books may be used.
        raises: the raises that wait for the others.
        capped: the brokers, by place, whose announced limits are capped; its owner keeps it up to
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
        self._raises = raises
        self._capped = capped
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
        #: Limits never raised above a reserve; the reserve may have shrunk since.
        self._unraised: set[LimitKey] = set()
        self._marked: set[str] = set()
        self._all_marked = False
        self._reborn = False

    def restart(self) -> None:
        """Begin a new incarnation: it holds no more than its reserves, even while degraded."""
        self._reborn = self._all_marked = True

    def split_of(self, place: LimitKey) -> Split | None:
        """Return the split that the latest decision was made from."""
        decision = self.decisions.get(place)
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
            self._unraised.discard((group, dimension))
            self._raises.drop(group, dimension)

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
        marked = self.forest.kin_of_all(self._marked) if self.forest else self._marked
        names = set(groups) if self._all_marked else marked & groups.keys()
        self._marked = set()
        self._all_marked = False
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
        facts = _Facts(
            members,
            usage,
            splits,
            degradations,
            lifecycle,
            round_,
            now_ns,
            tree_room,
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

    def _is_raised(self, name: str, before: Rates | None) -> bool:
        """Return whether a limit below a strict root has just been raised in any dimension."""
        if self.forest.strict_root(name) is None:
            return False
        now, former = self.in_force[name], before or Rates()
        return any((now.of(each) or 0) > (former.of(each) or 0) for each in Dimension)

    def _decide_group(self, group: ResourceGroup, facts: _Facts) -> bool:
        held = self.in_force.get(group.name)
        rates: dict[Dimension, int | None] = {}
        changed = False
        for dimension in Dimension:
            own = held.of(dimension) if held is not None else None
            place = (group.name, dimension)
            decision = within(
                self._decide_dimension(group, dimension, own, facts), facts.shares.get(place)
            )
            before = self.decisions.get(place)
            self.decisions[place] = decision
            if (
                before is None
                or before.local_limit != decision.local_limit
                or before.binding is not decision.binding
                or before.fraction != decision.fraction
            ):
                self.redecided.append(place)
                changed |= before is not None and before.fraction != decision.fraction
            self._note_raise(group, dimension, own, decision.local_limit, facts)
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
        self, roots: AbstractSet[str], groups: Mapping[str, ResourceGroup], facts: _Facts
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
            lost=Degradation.ZOOKEEPER_LOST in facts.degradations,
        )
        for root in sorted(roots):
            facts.shares.update(self.tree_quotas.share(root, tree_facts))

    def _note_raise(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        own: int | None,
        local: int | None,
        facts: _Facts,
    ) -> None:
        limit, place = group.limits.of(dimension), (group.name, dimension)
        if limit is None or local is None:
            self._unraised.discard(place)
        elif local <= self._reserve(group, dimension, facts):
            self._unraised.add(place)
        elif own is None or local > own:
            self._unraised.discard(place)

    def _reserve(self, group: ResourceGroup, dimension: Dimension, facts: _Facts) -> int:
        return reserve_in(group, dimension, len(facts.members), self._settings)

    def _decide_dimension(
        self, group: ResourceGroup, dimension: Dimension, own: int | None, facts: _Facts
    ) -> Decision:
        limit = group.limits.of(dimension)
        if limit is None:
            self._raises.drop(group.name, dimension)
            return Decision(None, Binding.UNLIMITED, facts.round, facts.now_ns)
        if group.overshoot_policy == STRICT and group.name not in self.forest:
            self._raises.drop(group.name, dimension)
            exact = group.exact_limits.of(dimension)
            return self._hold_in_escrow(group, dimension, exact or 0, own, facts)
        reserve = self._reserve(group, dimension, facts)
        held = reserve if own is None else own
        if facts.reborn:  # the limits of an earlier incarnation are unknown
            held = min(held, reserve)
        if facts.lifecycle in (Lifecycle.STARTING, Lifecycle.LEARNING):
            self._raises.drop(group.name, dimension)
            return Decision(min(held, reserve), Binding.RESERVE, facts.round, facts.now_ns)
        active = facts.lifecycle is Lifecycle.ACTIVE and self._settings.broker in facts.members
        takes_part = facts.usage.takes_part(group.name, dimension.monitoring_class)
        if active and not takes_part:
            # It holds its reserve whatever the others report, and all members count on that: no
            # question and no announcement is needed.
            self._raises.drop(group.name, dimension)
            return Decision(reserve, Binding.RESERVE, facts.round, facts.now_ns)
        answer = facts.splits.of(group, dimension)
        if active:
            return self._transfer(group, dimension, min(limit, held), answer, facts)
        self._raises.drop(group.name, dimension)
        # Without taking part it holds no more than its reserve while degraded either.
        most = limit if takes_part else reserve
        return self._hold(group, dimension, held, most, answer, facts)

    def _hold(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        held: int,
        most: int,
        answer: Split,
        facts: _Facts,
    ) -> Decision:
        """While degraded, keep the fraction of the shared sum; scale it down if that sum shrank.

        The own demand does not lower the limit meanwhile: it may have fallen for a moment only, and
        nothing could be raised again.
        """
        before = self.decisions.get((group.name, dimension))
        known = None if before is None else before.shared
        lasts = lasting(group, dimension, answer)
        shared = answer.exactly_shared if lasts is None else lasts
        part_of = shared if known is None else min(known, shared)
        if known:
            held = int(held * part_of // known)
        limit = answer.limit if lasts is None else group.base_of(dimension) or 0
        local = degraded_limit(
            held if lasts is not None else min(limit, held),
            limit,
            len(facts.members),
            facts.degradations,
            group.partition_policy,
            self._settings.hold_ns,
            facts.now_ns,
        )
        local = min(local, most)
        fraction = NO_FRACTION if before is None else before.fraction
        if known:
            fraction = fraction * part_of / known
        if fraction and not self._passes_while_degraded(group, facts):
            fraction = NO_FRACTION
        return Decision(
            local, Binding.DEGRADED, facts.round, facts.now_ns, answer, part_of, fraction
        )

    def _passes_while_degraded(self, group: ResourceGroup, facts: _Facts) -> bool:
        """Return whether anything of a limit passes while degraded."""
        members, hold_ns = len(facts.members), self._settings.hold_ns
        policy, now_ns = group.partition_policy, facts.now_ns
        return bool(
            degraded_limit(1, members, members, facts.degradations, policy, hold_ns, now_ns)
        )

    def _transfer(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        held: int,
        answer: Split,
        facts: _Facts,
    ) -> Decision:
        broker = self._settings.broker
        # Some laws hand out more than the limit, or round up: no local limit exceeds the group's.
        local = target = min(answer.limit, answer.target_of(broker))
        if target > held and group.overshoot_policy != EAGER:
            local = self._raise(group.name, dimension, held, answer, facts)
        else:
            self._raises.drop(group.name, dimension)
        binding = answer.binding_of(broker, local)
        part_of = lasting(group, dimension, answer)
        fraction = answer.fractions.get(broker, NO_FRACTION) if local == target else NO_FRACTION
        return Decision(local, binding, facts.round, facts.now_ns, answer, part_of, fraction)

    def _raise(
        self, group: str, dimension: Dimension, held: int, answer: Split, facts: _Facts
    ) -> int:
        """Return the limit that may be in force now; announce the rest of the target."""
        broker, now_ns = self._settings.broker, facts.now_ns
        capped = self._capped.get((group, dimension), frozenset())
        answer = answer.with_caps(capped)
        limit = answer.shared
        wanted = ceiling(limit, broker, answer.targets, {**answer.in_force, broker: held})
        if wanted <= held:
            self._raises.drop(group, dimension)
            return held
        self._raises.want(group, dimension, held, wanted, now_ns)
        tree_room = facts.tree_room if group in self.forest else None
        peers: AbstractSet[str] = answer.claims.keys() - {broker}
        if tree_room is not None:
            peers = tree_room.peers(group, dimension.monitoring_class)
        for peer in peers - capped:
            if not facts.usage.is_current(peer, now_ns):
                self._raises.wait_for(group, dimension, peer)
                return held
        first = held <= answer.reserve or (group, dimension) in self._unraised
        asked = facts.members.keys() - {broker} if first else peers
        known = self._raises.known_to(group, dimension, asked, facts.members, now_ns)
        if tree_room is None:
            safe = room(limit, broker, answer.ceilings)
        else:
            safe = tree_room.room(group, dimension, self.in_force)
        local = max(held, min(wanted, known, safe))
        share = facts.shares.get((group, dimension))
        if (
            share is not None
        ):  # the raise goes on when a transfer arrives: all know its ceiling by then
            local = min(local, share)
        if local == wanted:
            self._raises.drop(group, dimension)
        return local

    def _hold_in_escrow(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        limit: Rate,
        own: int | None,
        facts: _Facts,
    ) -> Decision:
        """Under strict, give away the surplus over the target and hold exactly what the books say."""
        lost = Degradation.ZOOKEEPER_LOST in facts.degradations
        quota = self._quotas.read(
            group.name, dimension, limit, own or 0, facts.members, facts.now_ns, lost=lost
        )
        if quota.cause is not None:
            return Decision(quota.rate, quota.cause, facts.round, facts.now_ns)
        answer = facts.splits.of(group, dimension)
        in_force = {name: limit_of(parts, limit) for name, parts in quota.holdings.items()}
        answer = replace(answer, in_force={**answer.in_force, **in_force})
        broker = self._settings.broker
        parts = quota.holdings[broker]
        if facts.lifecycle is Lifecycle.ACTIVE:
            targets = {name: answer.exact_target_of(name) for name in quota.holdings}
            parts = self._quotas.give(group.name, dimension, limit, quota, targets)
        local = limit_of(parts, limit)
        is_small = limit < WHOLE_FROM * len(quota.holdings) or dimension in dict(group.fractions)
        fraction = fraction_of(parts, limit) if is_small else NO_FRACTION
        degraded = facts.lifecycle is Lifecycle.DEGRADED
        binding = Binding.DEGRADED if degraded else answer.binding_of(broker, local)
        return Decision(local, binding, facts.round, facts.now_ns, answer, fraction=fraction)
