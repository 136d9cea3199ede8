"""The holder of the limits of a recording, in words: gates, the brokers' own limiters, or both.

With native enforcement there is no gate in the data path. Each broker's own limiter fills a bucket of
I/(I+1) seconds of its part anew at each interval of I seconds, which is its *slack*: a second in which an
interval starts late, and the next one on time, has two of them. A change reaches it within an interval,
and each write of the group's record in Pulsar lets every broker's clients publish all of it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spark_jobs.report_data import Value

GATE, NATIVE, BOTH = "gate", "native", "gate+native"
"""The recorded paths, as in the sidecars' configuration."""

_NAMED_MAX = 8
"""Brokers named in a sentence; more are counted."""


def sentences(brokers: Sequence[Value]) -> list[str]:
    """Say who held the limits and with which slack.

    Args:
        brokers: rows of broker, path and interval_s.

    Returns:
        None for a recording of gates alone, or of a release that did not record it.
    """
    found: list[str] = []
    native, both = (_of(brokers, path) for path in (NATIVE, BOTH))
    if native:
        found.append(
            f"{_names(native)}: the brokers' own limiters hold the limits on publishing, steered by the"
            " sidecars; no gate is in the data path, and dispatch is not held back."
        )
        found += _slack(native)
        found.append(
            "Demand there is read from the brokers' counters: a client that waits is known to want more,"
            " not how much."
        )
    if both:
        found.append(
            f"{_names(both)}: gates hold the limits; the brokers' own limiters stand behind them, higher"
            " by the margin, and hold what goes round a gate."
        )
    gates = _of(brokers, GATE)
    if found and gates:
        found.append(f"{_names(gates)}: gates hold the limits.")
    return found


def demand_of(brokers: Sequence[Value]) -> str:
    """Say where the demand of a recording was seen."""
    paths = {row["path"] for row in brokers}
    if paths == {NATIVE}:
        return "in the brokers' counters"
    return "at the gate, or in the brokers' counters" if NATIVE in paths else "at the gate"


def _of(brokers: Iterable[Value], path: str) -> list[Value]:
    return [row for row in brokers if row["path"] == path]


def _slack(native: Iterable[Value]) -> Iterator[str]:
    by_interval: dict[int, list[Value]] = {}
    for row in native:
        if row["interval_s"] is not None:
            by_interval.setdefault(row["interval_s"], []).append(row)
    for interval_s, rows in sorted(by_interval.items()):
        where = f" ({_names(rows)})" if len(by_interval) > 1 else ""
        bucket_s = interval_s / (interval_s + 1)
        yield (
            f"Slack of these limiters at their interval of {interval_s} s{where}: a change of a limit"
            f" takes up to {interval_s} s, {bucket_s:.2f} s of a limit may pass at once at each interval,"
            " twice in a second if an interval starts late, and the whole record after each write of it."
        )


def _names(rows: Iterable[Value]) -> str:
    names = sorted({row["broker"] for row in rows})
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
