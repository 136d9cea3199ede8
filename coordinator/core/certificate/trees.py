"""The certificate of a group that shares its limit: the sum of those of all groups below it.

Each holds by itself, so their sum does. It is more than the limit while a raise in one group and a
lowering in another are under way, since announced ceilings count in full.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.certificate.statement import SURE, Certificate, Holder
from coordinator.core.model import Dimension, ResourceGroup


def certificate_of_all(
    group: ResourceGroup, dimension: Dimension, leaves: Sequence[Certificate]
) -> Certificate:
    """Return the certificate of a group from those of the groups below it.

    Args:
        group: the group.
        dimension: one that it limits.
        leaves: the certificates of all groups below it that have traffic.
    """
    limit = group.limits.of(dimension)
    assert limit is not None, "only what is limited can be certified"
    for leaf in leaves:
        if leaf.most is None:
            obstacle = f"of {leaf.group}, {leaf.obstacle}"
            return Certificate(group.name, dimension, limit, None, 0, 0, obstacle=obstacle)
    holders: dict[str, Holder] = {}
    for each in (holder for leaf in leaves for holder in leaf.holders):
        known = holders.get(each.broker, Holder(each.broker, 0, each.basis))
        basis = each.basis if known.basis in SURE else known.basis
        holders[each.broker] = Holder(each.broker, known.most + each.most, basis)
    return Certificate(
        group.name,
        dimension,
        limit,
        sum(leaf.most or 0 for leaf in leaves),
        newcomer=sum(leaf.newcomer for leaf in leaves),
        burst=sum(leaf.burst for leaf in leaves),
        holders=tuple(holders[broker] for broker in sorted(holders)),
    )
