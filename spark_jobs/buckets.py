"""The buckets of WSO2's protocol: how far what passed in 1, 5, 10 and 20 s is above the limit at worst.

Buckets stand one after the other, from whole multiples of their length on the clock (UTC), and count only
where every second of them was wholly recorded. The shorter a bucket, the more a burst shows in it; the
longer, the more a limit that is a little too high does (wso2/api-platform#2187 found +13.1 % and +3.7 %
in those of a second).

Overshoot is half of the truth: a limiter that lets too little pass never overshoots. The other half is
the *latency regret*: how much longer a message waited than at one central bucket of the whole limit with
the same clients. Clients that have P messages under way wait P/A for one when A pass per second (Little's
law), and would wait P/C there: so it is C/A - 1 of their wait, in the seconds in which they wanted at
least the limit.

All of it comes from one row per group and 20 seconds, so that recorded seconds are shuffled once.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

BUCKETS_S = (1, 5, 10, 20)

_LONGEST_S = BUCKETS_S[-1]
_GROUP = ["resource_group", "dimension"]


def bucket_peaks(groups: DataFrame) -> DataFrame:
    """One row per group, dimension and length of a bucket that some seconds fill.

    Columns: length_s; buckets (that were wholly recorded); above (how many of them had more than the
    limit allows); peak (the worst one over the limit, negative when all are below); latency_regret (a
    part of the wait, the same for every length; null when clients never wanted all of the limit).

    Args:
        groups: group seconds.
    """
    slot = F.pmod("second", F.lit(_LONGEST_S))
    parts = [(length, n) for length in BUCKETS_S for n in range(_LONGEST_S // length)]
    sums = [
        column
        for length, n in parts
        for column in _sums(F.floor(slot / length) == n, _name(length, n))
    ]
    block = F.floor(F.col("second") / _LONGEST_S).alias("block")
    saturated = F.col("demand") >= F.col("room")
    waited = [
        F.sum(F.when(saturated, F.col(name))).alias(f"saturated_{name}")
        for name in ("admitted", "room")
    ]
    blocks = groups.where("known").groupBy(*_GROUP, block).agg(*sums, *waited)
    over = {(length, n): _over(length, _name(length, n)) for length, n in parts}
    found = [
        column
        for length in BUCKETS_S
        for column in _found(length, [over[each] for each in parts if each[0] == length])
    ]
    stacked = ", ".join(
        f"{length}, buckets_{length}, above_{length}, peak_{length}" for length in BUCKETS_S
    )
    return (
        blocks.groupBy(*_GROUP)
        .agg(*found, _latency_regret().alias("latency_regret"))
        .select(
            *_GROUP,
            F.expr(f"stack({len(BUCKETS_S)}, {stacked}) as (length_s, buckets, above, peak)"),
            "latency_regret",
        )
        .where(F.col("buckets") > 0)
    )


def _sums(inside: Column, name: str) -> list[Column]:
    return [
        F.sum(F.when(inside, F.col("admitted"))).alias(f"passed_{name}"),
        F.sum(F.when(inside, F.col("limit"))).alias(f"room_{name}"),
        F.count_if(inside).alias(f"seconds_{name}"),
    ]


def _over(length: int, name: str) -> Column:
    """The excess of one bucket; null when it is not whole, or the limit lets nothing pass."""
    part = F.try_divide(F.col(f"passed_{name}").cast("double"), F.col(f"room_{name}")) - 1
    return F.when(F.col(f"seconds_{name}") == length, part)


def _found(length: int, over: list[Column]) -> list[Column]:
    def number(conditions: list[Column]) -> Column:
        return F.sum(reduce(Column.__add__, [each.cast("int") for each in conditions]))

    worst = over[0] if len(over) == 1 else F.greatest(*over)
    above = [F.coalesce(each > 0, F.lit(False)) for each in over]
    return [
        number([each.isNotNull() for each in over]).alias(f"buckets_{length}"),
        number(above).alias(f"above_{length}"),
        F.max(worst).alias(f"peak_{length}"),
    ]


def _latency_regret() -> Column:
    """The sums are of all blocks; when nothing passed the wait had no end."""
    room, admitted = (F.sum(f"saturated_{name}") for name in ("room", "admitted"))
    return F.try_divide(room.cast("double"), admitted) - 1


def _name(length: int, n: int) -> str:
    return f"{length}_{n}"
