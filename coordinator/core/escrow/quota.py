"""A broker's quota of a strict group: what its books and its lease let it admit now.

Used for the limit of a strict group alone, and for that of a strict root of a tree
(escrow/tree_quota.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from coordinator.core.allocation.splitting import Binding
from coordinator.core.escrow.books import in_dimension, limit_of, of_dimension, transfers
from coordinator.core.escrow.escrow import Escrow
from coordinator.core.escrow.lease import Lease
from coordinator.core.model import Dimension, Rate


@dataclass(frozen=True, slots=True)
class Quota:
    """A broker's quota of one group and dimension.

    Args:
        rate: per second.
        cause: why the books do not decide alone; None if they do.
        holdings: the parts of all members whose books are known; empty unless the books decide.
    """

    rate: int
    cause: Binding | None = None
    holdings: Mapping[str, int] = field(default_factory=dict)


class Quotas:
    """Read quotas from the books, and give away what is too much.

    Args:
        broker: this one.
        escrow: its books.
        lease: the time until which they may be used.
    """

    def __init__(self, broker: str, escrow: Escrow, lease: Lease) -> None:
        self._broker = broker
        self._escrow = escrow
        self._lease = lease

    def is_leased(self, group: str | None) -> bool:
        """Return whether limits by the books of a group end with the lease."""
        return group is not None and self._escrow.holding(group) is not None

    def read(
        self,
        group: str,
        dimension: Dimension,
        limit: Rate,
        own: int,
        members: Collection[str],
        now_ns: int,
        *,
        lost: bool,
    ) -> Quota:
        """Return this broker's quota.

        Args:
            group: a strict one.
            dimension: one that it limits.
            limit: its limit, per second.
            own: what this broker admitted of it so far: the quota until there are books.
            members: all live brokers.
            now_ns: the time.
            lost: ZooKeeper ended the session.
        """
        if not self._escrow.is_open or lost:
            return Quota(0, Binding.DEGRADED)
        held = self._escrow.holding(group)
        if held is None:
            return Quota(min(own, int(limit)), Binding.GATE)
        if not self._lease.holds(now_ns):
            return Quota(0, Binding.DEGRADED)
        rate = limit_of(of_dimension(dimension, held), limit)
        if self._broker not in members:
            return Quota(rate, Binding.DEGRADED)
        holdings = {
            name: of_dimension(dimension, parts)
            for name, parts in self._escrow.holdings(group).items()
            if name in members
        }
        return Quota(rate, holdings=holdings)

    def give(
        self,
        group: str,
        dimension: Dimension,
        limit: Rate,
        quota: Quota,
        targets: Mapping[str, Rate],
    ) -> int:
        """Give the surplus over this broker's target to brokers below theirs; return the parts left.

        Args:
            group: a strict one.
            dimension: one that it limits.
            limit: its limit, per second.
            quota: by the books.
            targets: of all brokers whose books are known, per second.
        """
        left = quota.holdings[self._broker]
        for name, parts in transfers(limit, self._broker, targets, quota.holdings).items():
            self._escrow.give(group, name, in_dimension(dimension, parts))
            left -= parts
        return left
