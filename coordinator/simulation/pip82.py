"""The formula of Pulsar's built-in resource groups (PIP-82 as Pulsar implements it).

Source: Pulsar 4's ResourceQuotaCalculatorImpl, in whole numbers instead of 32-bit floats.
"""

from __future__ import annotations


def pip82_limit(limit: int, own: int, total: int) -> int:
    """Pulsar's formula for one broker.

    Args:
        limit: the group's.
        own: what this broker admitted, per second.
        total: what all of them admitted.
    """
    if total <= 0:
        return limit
    return max(1, own + (limit - total) * own // total)
