"""The invariants of the local limits: they keep to definitions, reserves, books and splits.

The parts of the core whose memory is private check it themselves: the usage map (usage/map.py), the
raises (transfer/raise_protocol.py) and the books (escrow/escrow.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.core.allocation.laws import JOINT_LAW
from coordinator.core.allocation.splitting import Binding, Split, reserve_in
from coordinator.core.decisions.decider import Decider
from coordinator.core.escrow.books import limit_of, of_dimension
from coordinator.core.escrow.escrow import Escrow
from coordinator.core.invariants import InvariantBroken, holds
from coordinator.core.model import Dimension, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import STRICT


def validate_limits(
    decider: Decider,
    names: Collection[str],
    groups: Mapping[str, ResourceGroup],
    members: Collection[str],
    escrow: Escrow,
    settings: CoreSettings,
) -> None:
    """Check the local limits of these groups against their definitions, reserves, books and splits.

    Raises:
        InvariantBroken: a statement does not hold.
    """
    for name in names:
        if name not in groups:
            raise InvariantBroken("Only existing groups have local limits", group=name)
        for dimension in Dimension:
            _validate_value(decider, groups[name], dimension)
            if decider.in_force[name].of(dimension) is None:
                continue
            _validate_reserve(decider, groups[name], dimension, len(members), settings)
            _validate_booked(decider, groups[name], dimension, escrow)
            _validate_split(decider, groups[name], dimension)
    _validate_quotas(decider, groups)


def _validate_quotas(decider: Decider, groups: Mapping[str, ResourceGroup]) -> None:
    """Check the limits below every strict root together."""
    for (root, dimension), quota in decider.tree_quotas.rates.items():
        leaves = decider.forest.leaves_of[root]
        held = {leaf: decider.in_force[leaf].of(dimension) or 0 for leaf in leaves}
        holds(
            sum(held.values()) <= quota,
            "The local limits below a strict root add up to at most this broker's quota of it",
            **_place(groups[root], dimension),
            held=held,
            quota=quota,
        )


def _validate_value(decider: Decider, group: ResourceGroup, dimension: Dimension) -> None:
    local, limit = decider.in_force[group.name].of(dimension), group.limits.of(dimension)
    decided = decider.decisions[group.name, dimension].local_limit
    if local is limit is decided is None:
        return
    figures = {**_place(group, dimension), "local": local, "limit": limit, "decided": decided}
    holds(local == decided, "The limit in force is the decided one", **figures)
    holds(
        (local is None) == (limit is None),
        "A local limit exists exactly where the group has a limit",
        **figures,
    )
    holds(
        local is None or limit is None or 0 <= local <= limit,
        "A local limit lies between 0 and the group's limit",
        **figures,
    )


def _validate_reserve(
    decider: Decider,
    group: ResourceGroup,
    dimension: Dimension,
    members: int,
    settings: CoreSettings,
) -> None:
    """Check a broker without participants: it need not ask for its reserve, so all count on that."""
    decision, limit = decider.decisions[group.name, dimension], group.limits.of(dimension)
    local = decision.local_limit
    of_reserve = decision.binding is Binding.RESERVE and group.overshoot_policy != STRICT
    if not of_reserve or limit is None or local is None:
        return
    reserve = reserve_in(group, dimension, members, settings)
    holds(
        local <= reserve,
        "A broker that takes no part holds at most its reserve",
        **_place(group, dimension),
        local=local,
        reserve=reserve,
    )


def _validate_booked(
    decider: Decider, group: ResourceGroup, dimension: Dimension, escrow: Escrow
) -> None:
    limit, local = group.exact_limits.of(dimension), decider.in_force[group.name].of(dimension)
    held = escrow.holding(group.name) if group.overshoot_policy == STRICT else None
    if limit is None or local is None or held is None:
        return
    booked = limit_of(of_dimension(dimension, held), limit)
    holds(
        local <= booked,
        "A strict local limit is at most the booked part of the group's limit",
        **_place(group, dimension),
        local=local,
        booked=booked,
    )


def _validate_split(decider: Decider, group: ResourceGroup, dimension: Dimension) -> None:
    split = decider.decisions[group.name, dimension].split
    if split is None:
        return
    place = _place(group, dimension)
    holds(
        split.claims.keys() == split.targets.keys() and split.idle >= 0,
        "A split has a target for every participant",
        **place,
        claims=sorted(split.claims),
        targets=sorted(split.targets),
        idle=split.idle,
    )
    if group.law == JOINT_LAW:
        _validate_sum(split, place)


def _validate_sum(split: Split, place: Mapping[str, str]) -> None:
    targets, reserves = sum(split.targets.values()), split.idle * split.reserve
    holds(
        targets + reserves <= split.limit,
        "Targets and reserves add up to at most the group's limit",
        **place,
        targets=targets,
        reserves=reserves,
        limit=split.limit,
    )


def _place(group: ResourceGroup, dimension: Dimension) -> dict[str, str]:
    return {"group": group.name, "dimension": dimension.value}
