"""The promises that every run is held to, whatever happens in it.

======================  ==========================================================================
always                  the core's own invariants hold (``CoordinatorState.validate``)
``balanced``            after every raise of a member that is not degraded, the limits in force at all
                        members add up to at most the group's limit and the reserves; with equal
                        views, and no member degraded, to at most the group's limit, or to what the law
                        hands out when that is more by design
``strict``              at any instant the limits in force add up to at most the group's limit
======================  ==========================================================================

While a new definition is on its way to the sidecars, "the group's limit" is the largest that any of them
still goes by. A policy that is not in the table promises nothing. A broken promise ends the run with
everything that is needed to see it again: the seed, the moment, the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coordinator.core.decisions.decision import Decision
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import Dimension
from coordinator.simulation.host import Host


class PromiseBroken(Exception):
    """A run showed something that must not be; the message says how to see it again."""


@dataclass(frozen=True, slots=True)
class Sum:
    """The limits of a group's dimension in force, added up, beside the group's limit; per second."""

    in_force: int
    limit: int


SumPromise = Callable[[Sum], str | None]


def never_above(total: Sum) -> str | None:
    """Check the promise of the policy strict; return the fault in words, or None."""
    if total.in_force > total.limit:
        return f"the limits in force add up to {total.in_force:,} of {total.limit:,}"
    return None


AT_ANY_INSTANT: Mapping[str, SumPromise] = {"strict": never_above}
"""Transfer policies whose promise holds at every change of a limit."""

AFTER_A_RAISE: Mapping[str, SumPromise] = {"balanced": never_above}
"""Transfer policies whose promise holds for all members whenever one of them has raised itself."""

WITH_EQUAL_VIEWS: Mapping[str, SumPromise] = {"balanced": never_above, "strict": never_above}
"""Transfer policies whose promise holds whenever all sidecars see the same."""


def agreed_targets(
    hosts: Iterable[Host], group: str, dimension: Dimension
) -> Mapping[str, int] | None:
    """Return the law's targets if all sidecars are active and see the same; None when they do not.

    To see the same is to have computed the same targets and to know what is in force at the others.
    """
    first: Decision | None = None
    running = list(hosts)
    in_force = {host.name: host.limit_of(group, dimension) for host in running}
    for host in running:
        decision = host.state.decider.decisions.get((group, dimension))
        if host.state.lifecycle is not Lifecycle.ACTIVE or decision is None:
            return None
        if decision.split is None or decision.split.in_force.keys() != in_force.keys():
            return None
        first = first or decision
        assert first.split is not None
        others = {name: held for name, held in decision.split.in_force.items() if name != host.name}
        if decision.split.targets != first.split.targets or any(
            in_force[name] != held for name, held in others.items()
        ):
            return None
    return None if first is None or first.split is None else first.split.targets
