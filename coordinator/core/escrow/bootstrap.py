"""A group's first escrow record: every broker starts from the limit that it announces.

A group that becomes strict while in use thereby goes on as it was, and no broker starts from nothing. A
root of a tree starts from the limits of all its leaves. The creator gets the parts that no broker
announces. All four dimensions begin at once, limited or not, so that a limit that is added later
finds its books.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.core.allocation.laws import apportion
from coordinator.core.allocation.splitting import split
from coordinator.core.escrow.books import NOTHING, TOTAL, add, in_dimension
from coordinator.core.model import (
    Account,
    Dimension,
    EscrowRecord,
    Member,
    Parts,
    ResourceGroup,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import UsageMap


def first_record(
    group: ResourceGroup,
    leaves: Sequence[ResourceGroup],
    creator: Account,
    members: Mapping[str, Member],
    usage: UsageMap,
    settings: CoreSettings,
) -> EscrowRecord:
    """Return the record to be created.

    Args:
        group: the group.
        leaves: the groups whose traffic takes from its limit: itself, or the leaves of its tree.
        creator: the member that gets the parts that no broker announces to hold.
        members: all live brokers.
        usage: their announcements.
        settings: the reserve that silent members are assumed to hold.
    """
    bases: dict[Account, Parts] = {}
    for dimension in Dimension:
        for name, parts in _shares(
            group, leaves, dimension, creator, members, usage, settings
        ).items():
            account = Account(name, members[name].incarnation)
            bases[account] = add(bases.get(account, NOTHING), in_dimension(dimension, parts))
    return EscrowRecord(group.name, generation=0, version=-1, bases=bases)


def _shares(
    group: ResourceGroup,
    leaves: Sequence[ResourceGroup],
    dimension: Dimension,
    creator: Account,
    members: Mapping[str, Member],
    usage: UsageMap,
    settings: CoreSettings,
) -> dict[str, int]:
    limit = group.limits.of(dimension)
    if not limit:
        return apportion(TOTAL, dict.fromkeys(members, 1))
    answers = [split(leaf, dimension, members, usage, settings) for leaf in leaves]
    announced = {name: sum(each.in_force_at(name) for each in answers) for name in members}
    if sum(announced.values()) >= limit:
        return apportion(TOTAL, announced)
    shares = {name: rate * TOTAL // limit for name, rate in announced.items()}
    shares[creator.broker] += TOTAL - sum(shares.values())
    return shares
