"""The same figures once more, as simply as can be: loops over rows, no Spark, exact fractions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def read(place: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table."""
    paths = sorted(place.glob(f"table={table}/version=1/date=*/*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def max_min(limit: Fraction, demands: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Give the same to every broker until one has enough, then go on with the others."""
    shares = dict.fromkeys(demands, Fraction(0))
    hungry = {broker for broker, demand in demands.items() if demand > 0}
    left = limit
    while hungry and left > 0:
        step = min(left / len(hungry), *(demands[b] - shares[b] for b in hungry))
        for broker in hungry:
            shares[broker] += step
        left -= step * len(hungry)
        hungry = {broker for broker in hungry if shares[broker] < demands[broker]}
    return shares


@dataclass
class Second:
    """One second of a group: its limit, and what each broker admitted, wanted, may and should."""

    limit: int
    room: int
    admitted: dict[str, int]
    demand: dict[str, Fraction]
    local: dict[str, int]
    fair: dict[str, Fraction]


def seconds(place: Path, dimension: str, limits: Mapping[int, int]) -> dict[int, Second]:
    """Every second of a dimension; `limits` says from which second on which limit holds."""
    rows = defaultdict(list)
    for row in read(place, "admitted"):
        if row["dimension"] == dimension:
            rows[round(row["second"].timestamp())].append(row)
    found = {}
    for second, of_second in rows.items():
        limit = limits[max(start for start in limits if start <= second)]
        before = limits[max(start for start in limits if start < second or start == 0)]
        demand = {row["broker"]: _demand(row, limit) for row in of_second}
        found[second] = Second(
            limit=limit,
            room=min(limit, before),
            admitted={row["broker"]: row["admitted"] for row in of_second},
            demand=demand,
            local={row["broker"]: row["local_limit"] for row in of_second},
            fair=max_min(Fraction(min(limit, before)), demand),
        )
    return found


def _demand(row: Mapping[str, Any], limit: int) -> Fraction:
    held = min(Fraction(1), Fraction(row["held_us"], row["observed_us"]))
    if held >= Fraction(9, 10):
        return Fraction(limit)
    wanted = Fraction(row["admitted"]) * (1 + held if held >= Fraction(1, 10) else 1)
    return min(wanted, Fraction(limit))


def figures(
    by_second: Mapping[int, Second], unknown: Sequence[int], happened: int, known: int, ends: int
) -> dict[str, Any]:
    """One event's figures, from its period."""
    period = [second for second in range(happened, ends + 1) if second in by_second]
    good = [by_second[second] for second in period if second not in unknown]
    totals = [(sum(second.admitted.values()), second) for second in good]
    over = [Fraction(total, second.limit) - 1 for total, second in totals]
    steady = [
        by_second[second]
        for second in period
        if second not in unknown and second > known + Fraction(ends - known, 2)
    ]
    shares = _shares(steady)
    wanted = [min(sum(second.demand.values()), Fraction(second.room)) for second in good]
    return {
        "settle_s": _settle(by_second, unknown, known, ends),
        "peak_1s": max([*over, Fraction(0)]),
        "volume_over": sum(max(part, Fraction(0)) for part in over),
        "time_over_101": Fraction(sum(part > Fraction(1, 100) for part in over), len(over)),
        "utilisation": sum(min(t, s.room) for t, s in totals) / sum(wanted),
        "jain": sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares)),
        "min_share": min(shares),
        "oscillation": _oscillation(steady),
        "seconds_known": len(good),
        "seconds_unknown": len(period) - len(good),
    }


def _shares(steady: Sequence[Second]) -> list[Fraction]:
    brokers = {broker for second in steady for broker in second.admitted}
    found = []
    for broker in sorted(brokers):
        fair = sum(second.fair.get(broker, Fraction(0)) for second in steady)
        if fair:
            found.append(sum(second.admitted.get(broker, 0) for second in steady) / fair)
    return found


def _settle(
    by_second: Mapping[int, Second], unknown: Sequence[int], known: int, ends: int
) -> int | None:
    settled: int | None = None
    while ends in unknown:
        ends -= 1
    for second in range(known + 1, ends + 1):
        at = by_second[second]
        allowed = Fraction(5, 100) * at.limit / len(at.admitted)
        off = any(abs(at.admitted[broker] - at.fair[broker]) > allowed for broker in at.admitted)
        if off or second in unknown:
            settled = None
        elif settled is None:
            settled = second - known - 1
    return settled


def _oscillation(steady: Sequence[Second]) -> Fraction:
    swings = []
    for broker in {broker for second in steady for broker in second.local}:
        values = [second.local[broker] for second in steady if broker in second.local]
        swings.append(Fraction(max(values) - min(values), steady[0].limit))
    return max(swings)
