"""The laws of Pulsar as it is deployed today: the open-source broker's, and a managed service's."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from coordinator.core.allocation.laws.claims import Allocation, Claim, allocation

_FLOAT32: Final = struct.Struct("<f")


def pulsar(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Return the quotas of Pulsar 4's ResourceQuotaCalculatorImpl; see ``pulsar_quota``.

    It differs only at a limit of 0: here nothing passes, where Pulsar sets 1 or no limit.
    """
    if limit == 0:
        return allocation(dict.fromkeys(claims, 0), claims)
    total = sum(claim.used for claim in claims.values())
    targets = {name: pulsar_quota(limit, claim.used, total) for name, claim in claims.items()}
    return allocation(targets, claims)


def tdmq(limit: int, claims: Mapping[str, Claim]) -> Allocation:
    """Return own use plus the rest of the cluster: the distributed limit of Tencent's TDMQ for Pulsar.

    Its documentation: of 1,000, five brokers use 150 each, 750 in all; the threshold of each is 150
    + 1000 - 750 = 400, and the cluster may reach 2,000 for a moment. Over the limit, the rest is
    negative; as in Pulsar the least result is 1, so that no broker is blocked for ever.
    """
    left = limit - sum(claim.used for claim in claims.values())
    least = min(1, limit)
    return allocation({n: max(least, claim.used + left) for n, claim in claims.items()}, claims)


def pulsar_quota(configured: int, used: int, total: int) -> int:
    """Return Pulsar's ``computeLocalQuota``, rounding included: max(1, configured * used / total).

    Written as upstream writes it, ``used + (configured - total) * used / total``, every step
    rounded to a 32-bit float and the result truncated: 10 MB/s in three equal parts of 600 MB are
    3,333,328 bytes. -1 is "not limited" here, as in Pulsar.

    Args:
        configured: the group's limit, per second.
        used: the use of this broker in a period.
        total: the use of all brokers in it; a total below ``used`` is odd but not refused.

    Raises:
        ValueError: a negative use.
    """
    if configured < 0:
        return -1
    if used < 0 or total < 0:
        raise ValueError(f"usage must be >= 0, got {used} of {total}")
    if total == 0:
        return configured
    residual = _float32(configured - total)
    fraction = _float32(_float32(used) / _float32(total))
    return int(max(_float32(_float32(used) + _float32(residual * fraction)), 1.0))


def _float32(number: float) -> float:
    # An operation on 32-bit floats, done in 64 bits and rounded again, is exact (2 * 24 + 2 <= 53).
    rounded: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    return rounded
