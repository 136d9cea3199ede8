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
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

BUCKETS_S = (1, 5, 10, 20)

_GROUP = ["resource_group", "dimension"]


def bucket_peaks(groups: DataFrame) -> DataFrame:
    """One row per group, dimension and length of a bucket that some seconds fill.

    Columns: length_s; buckets (that were wholly recorded); above (how many of them had more than the
    limit allows); peak (the worst one over the limit, negative when all are below); latency_regret (a
    part of the wait, the same for every length; null when clients never wanted all of the limit).

    Args:
        groups: group seconds.
    """
    known = groups.where("known")
    lengths = F.explode(F.array(*map(F.lit, BUCKETS_S)))
    # Null when the limit lets nothing pass.
    over = F.try_divide(F.sum("admitted").cast("double"), F.sum(F.col("limit").cast("double"))) - 1
    whole = (
        known.withColumn("length_s", lengths)
        .groupBy(*_GROUP, "length_s", F.floor(F.col("second") / F.col("length_s")).alias("bucket"))
        .agg(over.alias("over"), F.count("*").alias("seconds"))
        .where(F.col("seconds") == F.col("length_s"))
    )
    found = whole.groupBy(*_GROUP, "length_s").agg(
        F.count("over").alias("buckets"),
        F.count_if(F.col("over") > 0).alias("above"),
        F.max("over").alias("peak"),
    )
    regret = F.try_divide(F.sum("room").cast("double"), F.sum("admitted")) - 1
    waited = known.where(F.col("demand") >= F.col("room")).groupBy(*_GROUP)
    regrets = waited.agg(regret.alias("latency_regret"))
    return found.where(F.col("buckets") > 0).join(regrets, _GROUP, "left")
