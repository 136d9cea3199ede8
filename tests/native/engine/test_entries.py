"""The formula, against what a broker makes of it (32-bit floats, as Pulsar computes)."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.core.model import Rates
from coordinator.native.engine.entries import Amounts, Record, capacity_of, entry_of, record_of


def pulsars_quota(conf: int, mine: int, total: int) -> int:
    """ResourceQuotaCalculatorImpl.computeLocalQuota."""
    if conf < 0:
        return -1
    if total == 0:
        return conf
    residual = np.float32(conf - total)
    fraction = np.float32(mine) / np.float32(total)
    return int(max(np.float32(mine) + residual * fraction, np.float32(1)))


@pytest.mark.parametrize("interval_s", [1, 2, 5, 10, 60])
@pytest.mark.parametrize(
    "limits", [(1_500, 1_500), (2_000, 1_000), (1, 2_999), (70_000_000, 30_000_000, 123_456_789)]
)
def test_a_saturated_broker_admits_its_limit(interval_s: int, limits: tuple[int, ...]) -> None:
    """A full bucket at the start of each interval and the quota for the rest are the limit together."""
    record = record_of(Rates(publish_messages=sum(limits)), interval_s)
    entries = [entry_of(Amounts(limit), interval_s).messages for limit in limits]
    for limit, mine in zip(limits, entries, strict=True):
        quota = pulsars_quota(record.messages, mine, sum(entries))
        admitted = quota * (interval_s + 1) / interval_s

        least = (interval_s + 1) / interval_s  # a quota is never below 1
        assert limit * (1 - 5e-6) - 2 <= admitted <= max(limit * (1 + 5e-6), least)


def test_what_is_not_limited_stays_so_and_nothing_is_never_written() -> None:
    """0 would be no limit to Pulsar's limiter."""
    assert record_of(Rates(publish_messages=0), 1) == Record(1, -1)
    assert record_of(Rates(), 1) == Record(-1, -1)
    assert capacity_of(Record(-1, 1_500), 1) == (None, 3_000)


def test_a_record_is_within_pulsars_types() -> None:
    """An int and a long of Java."""
    assert record_of(Rates(publish_messages=2**40, publish_bytes=2**62), 60).messages == 2**31 - 1


@pytest.mark.parametrize("limit", [2**24 + 1, 2**27 - 3, 2**31 - 1])
def test_no_quota_is_above_the_record_however_large(limit: int) -> None:
    """Above 2^24 floats are a little off, never by more than a part in a million."""
    record = record_of(Rates(publish_messages=limit), 1).messages
    parts = [limit // 3, limit // 5, limit - limit // 3 - limit // 5]
    quotas = [pulsars_quota(record, part, limit) for part in parts]

    assert sum(quotas) <= record * (1 + 1e-6)
