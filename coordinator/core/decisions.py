"""The local limits in force and the reason for each.

A decision is made anew only for groups whose facts changed (``mark``); the last missing answer to a raise
is such a fact (transfer/raising.py). Each decision is kept as a whole, so that the question "why is this
limit what it is" needs no guess: insight/model/explain.py puts the answer into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from coordinator.core.allocation.splits import Splits
from coordinator.core.allocation.splitting import Binding, Split, reserve_of
from coordinator.core.demand.observing import is_observed
from coordinator.core.escrow.books import gifts, in_dimension, limit_of, of_dimension
from coordinator.core.escrow.escrow import Escrow
from coordinator.core.escrow.lease import Lease
from coordinator.core.lifecycle import Lifecycle, Trouble
from coordinator.core.model import Dimension, Member, MonitoringClass, Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import EAGER, STRICT, ceiling, room
from coordinator.core.transfer.raising import Raises
from coordinator.core.trouble import Troubles, limit_in_trouble
from coordinator.core.usage.map import UsageMap


@dataclass(frozen=True, slots=True)
class Decision:
    """One local limit with its reason.

    Args:
        local_limit: per second; None is unlimited.
        binding: the cause of the limit.
        round: in which it was decided.
        decided_ns: when.
        split: the answer of the law; None where the law was not asked.
        part_of: while degraded, the least shared sum since the limit was a part of it.
    """

    local_limit: int | None
    binding: Binding
    round: int
    decided_ns: int
    split: Split | None = None
    part_of: int | None = None

    @property
    def shared(self) -> int | None:
        """Return the sum of which the limit is a part, per second."""
        return self.split.shared if self.part_of is None and self.split else self.part_of


@dataclass(frozen=True, slots=True)
class _Facts:
    """The input of a decision, besides the group itself."""

    members: Mapping[str, Member]
    usage: UsageMap
    splits: Splits
    troubles: Troubles
    lifecycle: Lifecycle
    round: int
    now_ns: int
    #: Whether this is the first decision of a new incarnation.
    reborn: bool


class Decider:
    """Decide the local limits of this broker.

    Args:
        settings: the core's.
        escrow: the books of strict groups.
        lease: the time until which the books may be used.
        raises: the raises that wait for the others.
        doubted: the brokers, by place, whose announced limits are not believed; its owner keeps it
            up to date (reports/suspects.py).
    """

    def __init__(
        self,
        settings: CoreSettings,
        escrow: Escrow,
        lease: Lease,
        raises: Raises,
        doubted: Mapping[tuple[str, Dimension], AbstractSet[str]],
    ) -> None:
        self._settings = settings
        self._escrow = escrow
        self._lease = lease
        self._raises = raises
        self._doubted = doubted
        #: The local limits in force, by group.
        self.in_force: dict[str, Rates] = {}
        #: The groups whose limits are this broker's only until the end of its lease.
        self.leased: set[str] = set()
        #: The groups whose limits are not enforced.
        self.observed: set[str] = set()
        #: The latest decision per group and dimension.
        self.decisions: dict[tuple[str, Dimension], Decision] = {}
        #: The number of passes, and where the last pass decided another limit or another cause.
        self.passes = 0
        self.redecided: list[tuple[str, Dimension]] = []
        #: Limits never raised above a reserve; the reserve may have shrunk since.
        self._unraised: set[tuple[str, Dimension]] = set()
        self._marked: set[str] = set()
        self._all_marked = False
        self._reborn = False

    def restart(self) -> None:
        """Begin a new incarnation: it holds no more than its reserves, even while degraded."""
        self._reborn = self._all_marked = True

    def split_of(self, place: tuple[str, Dimension]) -> Split | None:
        """Return the split that the latest decision was made from."""
        decision = self.decisions.get(place)
        return None if decision is None else decision.split

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
        troubles: Troubles,
        lifecycle: Lifecycle,
        round_: int,
        now_ns: int,
    ) -> dict[str, Rates | None]:
        """Decide what is due; return the groups whose limits changed, sorted, with the former limits."""
        names = set(groups) if self._all_marked else self._marked & groups.keys()
        self._marked = set()
        self._all_marked = False
        if not names:
            return {}
        self.passes += 1
        self.redecided = []
        splits = Splits(members, usage, self._settings)
        facts = _Facts(
            members, usage, splits, troubles, lifecycle, round_, now_ns, reborn=self._reborn
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
        changed = {}
        for name in sorted(names):
            held = self.in_force.get(name)
            if self._decide_group(groups[name], facts):
                changed[name] = held
        return changed

    def _decide_group(self, group: ResourceGroup, facts: _Facts) -> bool:
        held = self.in_force.get(group.name)
        rates: dict[Dimension, int | None] = {}
        for dimension in Dimension:
            own = held.of(dimension) if held is not None else None
            decision = self._decide_dimension(group, dimension, own, facts)
            place = (group.name, dimension)
            before = self.decisions.get(place)
            self.decisions[place] = decision
            if (
                before is None
                or before.local_limit != decision.local_limit
                or before.binding is not decision.binding
            ):
                self.redecided.append(place)
            self._note_raise(group, dimension, own, decision.local_limit, facts)
            rates[dimension] = decision.local_limit
        self.in_force[group.name] = Rates.from_mapping(rates)
        changed = self.in_force[group.name] != held
        leased = group.overshoot_policy == STRICT and self._escrow.holding(group.name) is not None
        if leased is not (group.name in self.leased):
            self.leased ^= {group.name}
            changed = True
        if is_observed(group) is not (group.name in self.observed):
            self.observed ^= {group.name}
            changed = True
        return changed

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
        elif local <= reserve_of(limit, len(facts.members), self._settings):
            self._unraised.add(place)
        elif own is None or local > own:
            self._unraised.discard(place)

    def _decide_dimension(
        self, group: ResourceGroup, dimension: Dimension, own: int | None, facts: _Facts
    ) -> Decision:
        limit = group.limits.of(dimension)
        if limit is None:
            self._raises.drop(group.name, dimension)
            return Decision(None, Binding.UNLIMITED, facts.round, facts.now_ns)
        if group.overshoot_policy == STRICT:
            self._raises.drop(group.name, dimension)
            return self._hold_in_escrow(group, dimension, limit, own, facts)
        reserve = reserve_of(limit, len(facts.members), self._settings)
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
        part_of = answer.shared if known is None else min(known, answer.shared)
        if known:
            held = held * part_of // known
        local = limit_in_trouble(
            min(answer.limit, held),
            answer.limit,
            len(facts.members),
            facts.troubles,
            group.partition_policy,
            self._settings.hold_ns,
            facts.now_ns,
        )
        local = min(local, most)
        return Decision(local, Binding.DEGRADED, facts.round, facts.now_ns, answer, part_of)

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
        return Decision(local, answer.binding_of(broker, local), facts.round, facts.now_ns, answer)

    def _raise(
        self, group: str, dimension: Dimension, held: int, answer: Split, facts: _Facts
    ) -> int:
        """Return the limit that may be in force now; announce the rest of the target."""
        broker, now_ns = self._settings.broker, facts.now_ns
        doubted = self._doubted.get((group, dimension), frozenset())
        answer = answer.with_doubts(doubted)
        limit = answer.shared
        wanted = ceiling(limit, broker, answer.targets, {**answer.in_force, broker: held})
        if wanted <= held:
            self._raises.drop(group, dimension)
            return held
        self._raises.want(group, dimension, held, wanted, now_ns)
        peers = answer.claims.keys() - {broker}
        for peer in peers - doubted:
            if not facts.usage.is_current(peer, now_ns):
                self._raises.wait_for(group, dimension, peer)
                return held
        first = held <= answer.reserve or (group, dimension) in self._unraised
        asked = facts.members.keys() - {broker} if first else peers
        known = self._raises.known_to(group, dimension, asked, facts.members, now_ns)
        local = max(held, min(wanted, known, room(limit, broker, answer.ceilings)))
        if local == wanted:
            self._raises.drop(group, dimension)
        return local

    def _hold_in_escrow(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        limit: int,
        own: int | None,
        facts: _Facts,
    ) -> Decision:
        """Under strict, give away the surplus over the target and hold exactly what the books say."""
        if not self._escrow.is_open or Trouble.ZOOKEEPER_LOST in facts.troubles:
            return Decision(0, Binding.DEGRADED, facts.round, facts.now_ns)
        held = self._escrow.holding(group.name)
        if held is None:  # the group has just become strict: stay until its books are founded
            local = min(own or 0, limit)
            return Decision(local, Binding.GATE, facts.round, facts.now_ns)
        if not self._lease.holds(facts.now_ns):
            return Decision(0, Binding.DEGRADED, facts.round, facts.now_ns)
        broker = self._settings.broker
        if broker not in facts.members:
            local = limit_of(of_dimension(dimension, held), limit)
            return Decision(local, Binding.DEGRADED, facts.round, facts.now_ns)
        holdings = {
            name: of_dimension(dimension, parts)
            for name, parts in self._escrow.holdings(group.name).items()
            if name in facts.members
        }
        answer = facts.splits.of(group, dimension)
        in_force = {name: limit_of(parts, limit) for name, parts in holdings.items()}
        answer = replace(answer, in_force={**answer.in_force, **in_force})
        if facts.lifecycle is Lifecycle.ACTIVE:
            targets = {name: answer.target_of(name) for name in holdings}
            for name, parts in gifts(limit, broker, targets, holdings).items():
                self._escrow.give(group.name, name, in_dimension(dimension, parts))
                holdings[broker] -= parts
        local = limit_of(holdings[broker], limit)
        degraded = facts.lifecycle is Lifecycle.DEGRADED
        binding = Binding.DEGRADED if degraded else answer.binding_of(broker, local)
        return Decision(local, binding, facts.round, facts.now_ns, answer)
