"""Two laws side by side: the targets of another law from the same facts, without enforcing them.

Before an operator changes a group's law, this shows for a while and on the real traffic which brokers
would gain and lose. The candidate gets exactly the input of the law in force (limit, reserves, claims,
uses, all of this moment), so the difference comes from the law alone. The traffic under the candidate,
and so its next input, can only be simulated.

A comparison is made on demand, from the present state, and costs one more split: the state keeps nothing
of it, and no limit, report or decision is made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from coordinator.core.allocation.laws import LAWS
from coordinator.core.model import Dimension, ResourceGroup
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.explain import UnknownGroup
from coordinator.insight.model.views import ShadowOfBrokerView, ShadowView


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two laws' answers for one group and dimension.

    Args:
        group: the group.
        dimension: the dimension.
        law: the one in force.
        candidate: the other one.
        limit: the group's limit for the cluster, per second.
        brokers: all participants, by name.
    """

    group: str
    dimension: Dimension
    law: str
    candidate: str
    limit: int
    brokers: tuple[ShadowOfBrokerView, ...]

    def of(self, broker: str) -> ShadowOfBrokerView | None:
        """Return one broker's targets; None when it takes no part."""
        return next((each for each in self.brokers if each.broker == broker), None)

    @property
    def moved(self) -> int:
        """Return the rate that would be with other brokers, or be handed out less or more, per second."""
        gained = sum(max(0, each.then - each.now) for each in self.brokers)
        lost = sum(max(0, each.now - each.then) for each in self.brokers)
        return max(gained, lost)

    def view(self, broker: str) -> ShadowView:
        """Return the comparison with the words for one broker."""
        return ShadowView(
            group=self.group,
            dimension=self.dimension,
            law=self.law,
            candidate=self.candidate,
            limit=self.limit,
            moved=self.moved,
            brokers=self.brokers,
            sentence=self.sentence(broker),
        )

    def sentence(self, broker: str) -> str:
        """Return the comparison for one broker in words."""
        found = self.of(broker)
        if found is None:
            own = f"{broker} takes no part: it would hold its reserve as now"
        elif found.then == found.now:
            own = f"{broker} would be due {found.now:,}/s as now"
        else:
            own = f"{broker} would be due {found.then:,}/s, not {found.now:,}/s"
        return f"Under {self.candidate} {own}; {self.moved:,} of {self.limit:,}/s would move."


def compare(
    state: CoordinatorState, name: str, dimension: Dimension, candidate: str
) -> Comparison | None:
    """Compare a group's law with a candidate for one dimension; None where nothing is limited.

    Raises:
        UnknownGroup: there is no such group.
        ValueError: there is no such law.
    """
    if candidate not in LAWS:
        raise ValueError(f"there is no law {candidate}; there are {', '.join(LAWS)}")
    group = (state.groups or {}).get(name)
    if group is None:
        raise UnknownGroup(name)
    limit = group.limits.of(dimension)
    if limit is None:
        return None
    now = _due(state, group, dimension)
    then = _due(state, replace(group, law=candidate), dimension)
    brokers = tuple(ShadowOfBrokerView(broker, due, then[broker]) for broker, due in now.items())
    return Comparison(name, dimension, group.law, candidate, limit, brokers)


def _due(state: CoordinatorState, group: ResourceGroup, dimension: Dimension) -> Mapping[str, int]:
    answer = state.decider.split_now(
        group, dimension, state.groups or {}, state.members, state.usage
    )
    # Some laws hand out more than the limit, or round up: no local limit exceeds the group's.
    return {broker: min(answer.limit, due) for broker, due in sorted(answer.targets.items())}
