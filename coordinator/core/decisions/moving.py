"""A limit on its way to its target, under ``balanced`` and ``eager``.

It is lowered at once. Under ``eager`` it is raised at once, too; under ``balanced`` as far as the others
know and as there is room (transfer/policies.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from coordinator.core.allocation.splitting import NO_FRACTION, Split
from coordinator.core.decisions.decision import Decision, lasting
from coordinator.core.decisions.facts import DecisionFacts, LimitInForce
from coordinator.core.model import Dimension, LimitKey
from coordinator.core.transfer.policies import EAGER, ceiling, room
from coordinator.core.transfer.raise_protocol import Raises


class MovingLimits:
    """Move limits to their targets.

    Args:
        raises: the raises that wait for the others.
        capped: the brokers, by limit, whose announced limits are capped; its owner keeps it up to
            date (reports/plausibility.py).
    """

    def __init__(self, raises: Raises, capped: Mapping[LimitKey, AbstractSet[str]]) -> None:
        self._raises = raises
        self._capped = capped
        #: Limits never raised above a reserve; the reserve may have shrunk since.
        self._unraised: set[LimitKey] = set()

    def decide(self, limit: LimitInForce, whole: int, facts: DecisionFacts) -> Decision:
        """Decide a limit by the law.

        Args:
            limit: under ``balanced`` or ``eager``.
            whole: the group's limit for the cluster, per second.
            facts: of the pass.
        """
        group, dimension, _, _ = limit
        broker = facts.settings.broker
        split = facts.splits.of(group, dimension)
        held = min(whole, facts.held(limit))
        # Some laws hand out more than the limit, or round up: no local limit exceeds the group's.
        local = target = min(split.limit, split.target_of(broker))
        if target > held and group.overshoot_policy != EAGER:
            local = self._raise(limit, held, split, facts)
        else:
            self.stay(limit.key)
        return facts.decision(
            local,
            split.binding_of(broker, local),
            split,
            lasting(group, dimension, split),
            split.fractions.get(broker, NO_FRACTION) if local == target else NO_FRACTION,
        )

    def stay(self, key: LimitKey) -> None:
        """Drop the raise of a limit that is not on its way up any more."""
        self._raises.drop(*key)

    def note(self, limit: LimitInForce, decided: int | None, facts: DecisionFacts) -> None:
        """Note whether the limit that is in force now was ever raised above a reserve."""
        if decided is None or limit.group.limits.of(limit.dimension) is None:
            self._unraised.discard(limit.key)
        elif decided <= facts.reserve(limit):
            self._unraised.add(limit.key)
        elif limit.rate is None or decided > limit.rate:
            self._unraised.discard(limit.key)

    def forget(self, group: str) -> None:
        """Forget a deleted group."""
        for dimension in Dimension:
            self._unraised.discard((group, dimension))
            self.stay((group, dimension))

    def _raise(self, limit: LimitInForce, held: int, split: Split, facts: DecisionFacts) -> int:
        """Return the limit that may be in force now; announce the rest of the target."""
        (group, dimension), broker, now_ns = limit.key, facts.settings.broker, facts.now_ns
        capped = self._capped.get(limit.key, frozenset())
        split = split.with_caps(capped)
        wanted = ceiling(split.shared, broker, split.targets, {**split.in_force, broker: held})
        if wanted <= held:
            self.stay(limit.key)
            return held
        self._raises.want(group, dimension, held, wanted, now_ns)
        tree_room = None if limit.group.entitled is None else facts.tree_room
        peers: AbstractSet[str] = split.claims.keys() - {broker}
        if tree_room is not None:
            peers = tree_room.peers(group, dimension.monitoring_class)
        for peer in peers - capped:
            if not facts.usage.is_current(peer, now_ns):
                self._raises.wait_for(group, dimension, peer)
                return held
        first = held <= split.reserve or limit.key in self._unraised
        asked = facts.members.keys() - {broker} if first else peers
        known = self._raises.known_to(group, dimension, asked, facts.members, now_ns)
        if tree_room is None:
            safe = room(split.shared, broker, split.ceilings)
        else:
            safe = tree_room.room(group, dimension, facts.in_force)
        local = max(held, min(wanted, known, safe))
        share = facts.shares.get(limit.key)
        if share is not None:
            # The raise goes on when a transfer arrives: all know its ceiling by then.
            local = min(local, share)
        if local == wanted:
            self.stay(limit.key)
        return local
