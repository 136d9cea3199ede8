"""The share of one tenant's admins in a bound that all have in common: a tenth leaves room for others.

A super-user is held to the whole bound alone. There are two kinds of such bounds:

* *numbers*, such as topics with limits: above its share a tenant's admin is refused, 409, until one of
  its own is removed. Two requests at the same moment may both find the last place;
* *trails*, of which the newest entries are kept: a tenant's entries push out the same tenant's, and a
  super-user's those of super-users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

_PARTS: Final = 10


def share_of(bound: int) -> int:
    """Return one tenant's share of a bound."""
    return bound // _PARTS


def surplus(tenants: Sequence[str], keep: int) -> list[int]:
    """Return the places of the entries that a trail of ``keep`` drops, the newest first.

    Args:
        tenants: by entry, oldest first: whose admin made it; empty is a super-user.
        keep: super-users' entries that stay; of each tenant's its share stays.
    """
    dropped: list[int] = []
    found: Counter[str] = Counter()
    for place in range(len(tenants) - 1, -1, -1):
        tenant = tenants[place]
        found[tenant] += 1
        if found[tenant] > (share_of(keep) if tenant else keep):
            dropped.append(place)
    return dropped
