"""The report in words: the headline and one screen of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from spark_jobs.enforcement import sentences
from spark_jobs.report_data import ReportData, Value

_UNITS = {
    "publishRateInMsgs": "msg/s published",
    "publishRateInBytes": "B/s published",
    "dispatchRateInMsgs": "msg/s dispatched",
    "dispatchRateInBytes": "B/s dispatched",
}
_SCREEN_EVENTS, _SCREEN_GROUPS = 16, 8
_THE_MORE_THE_WORSE = (
    "settle_s", "peak_1s", "peak_10s", "time_over_105", "error", "regret", "oscillation", "starvation_s",
)  # fmt: skip
_THE_LESS_THE_WORSE = ("utilisation", "jain", "min_share")
_FORMS: Mapping[str, str] = {
    **dict.fromkeys(("settle_s", "reclaim_s", "starvation_s"), "{:g} s"),
    **dict.fromkeys(("seconds_known", "seconds_unknown"), "{} s"),
    **dict.fromkeys(("jain", "min_share"), "{:.4f}"),
    **dict.fromkeys(("certificates_broken", "events", "never_settled"), "{}"),
    "limit_changes_per_minute": "{:.1f}",
    "volume_over": "{:.3f} s",
}
"""The format of each figure; the others are parts and written as percentages."""


def unit_of(dimension: str) -> str:
    """A dimension as people say it."""
    return _UNITS.get(dimension, dimension)


def headline(events: Sequence[Value]) -> str:
    """The run in one sentence."""
    judged = [event for event in events if event["judged"]]
    if not judged:
        return "Nothing can be said: no event is followed by five whole recorded seconds."
    names = {(event["resource_group"], event["dimension"]) for event in judged}
    if len(names) == 1:
        ((group, dimension),) = names
        limits = sorted({event["limit"] for event in judged})
        held = (
            f"{group} held to {' and '.join(f'{limit:,}' for limit in limits)} {unit_of(dimension)}"
        )
    else:
        held = f"{len(names)} limits held"
    errors = [abs(event["error"]) for event in judged if event["error"] is not None]
    within = f" within {_percent(max(errors))}" if errors else ""
    never = [event for event in judged if event["settle_s"] is None]
    if never:
        settled = f"{len(never)} of {len(judged)} events never settled"
    else:
        slowest = max(event["settle_s"] for event in judged)
        settled = (
            "every event settled in its first whole second"
            if slowest == 0
            else f"every event settled within {slowest} s"
        )
    peak = max((event["peak_1s"] or 0.0 for event in judged), default=0.0)
    above = (
        "no second above the limit"
        if peak == 0
        else f"no second above {1 + peak:.3f} times the limit"
    )
    return f"{held}{within}; {settled}; {above}."


def overall(events: Sequence[Value]) -> dict[str, float | int | None]:
    """The worst of each figure over all judged events; of settling also how often it never came."""
    judged = [event for event in events if event["judged"]]

    def values(name: str) -> list[float]:
        return [event[name] for event in judged if event[name] is not None]

    worst: dict[str, float | int | None] = {
        "events": len(judged),
        "never_settled": sum(event["settle_s"] is None for event in judged),
    }
    for name in _THE_MORE_THE_WORSE:
        worst[name] = max(map(abs, values(name)), default=None)
    for name in _THE_LESS_THE_WORSE:
        worst[name] = min(values(name), default=None)
    return worst


def text(
    cluster: str, collected: ReportData, warnings: Sequence[str], missed: Sequence[str]
) -> str:
    """One screen for a terminal."""
    lines = [f"cluster {cluster}: {headline(collected.events)}"]
    lines += [*sentences(collected.enforcement), ""]
    form = "{:<16} {:<26} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8}"
    lines.append(
        form.format("group", "event", "settle", "Jain", "least", "peak 1s", "error", "reclaim")
    )
    shown = collected.events[:_SCREEN_EVENTS]
    lines += [form.format(*_cells(event)) for event in shown]
    more = len(collected.events) - len(shown) + collected.left_out.get("events", 0)
    if more:
        lines.append(f"... and {more} more events, in figures.json and index.html")
    lines += ["", *_buckets(collected.buckets), *_trees(collected.trees)]
    gaps = sum(row["gaps"] for row in collected.recorded)
    missing = sum(row["seconds_missing"] for row in collected.recorded)
    clocks = _skew(collected.clock_skew)
    lines += ["", f"{gaps} {'gap' if gaps == 1 else 'gaps'}, {missing} s not recorded; {clocks}"]
    lines += [f"warning: {warning}" for warning in warnings]
    lines += [f"missed: {line}" for line in missed]
    return "\n".join(lines) + "\n"


def title_of(event: Value) -> str:
    """An event in a few words."""
    return f"{' + '.join(event['kinds'])} {', '.join(event['subjects'])}"


def moment(second: int) -> str:
    """A second as people read it, UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S")


def figure(name: str, value: Any, *, judged: bool = True) -> str:
    """A figure of an event as people read it: what is not judged has not failed to settle."""
    if value is None:
        return "never" if judged and name == "settle_s" else "-"
    form = _FORMS.get(name)
    return _percent(value) if form is None else form.format(value)


def _cells(event: Mapping[str, Any]) -> list[str]:
    title = title_of(event)
    names = ("settle_s", "jain", "min_share", "peak_1s", "error", "reclaim_s")
    return [
        event["resource_group"][:16],
        title if len(title) <= 26 else f"{title[:23]}...",
        *(figure(name, event[name], judged=event["judged"]) for name in names),
    ]


def _buckets(buckets: Sequence[Value]) -> list[str]:
    """The worst bucket of each length and latency regret of all groups; nothing when none is whole."""
    worst: dict[int, float] = {}
    for row in buckets:
        if row["peak"] is not None:
            worst[row["length_s"]] = max(row["peak"], worst.get(row["length_s"], row["peak"]))
    told = [f"{length} s {signed(peak)}" for length, peak in sorted(worst.items())]
    waits = [row["latency_regret"] for row in buckets if row["latency_regret"] is not None]
    lines = [f"worst bucket over its limit: {', '.join(told)}"] * bool(told)
    if waits:
        lines.append(f"latency regret against one central bucket: {signed(max(waits))} of the wait")
    return lines


def _trees(trees: Sequence[Value]) -> list[str]:
    """A line for each of the first groups of trees, as far as a screen has room."""
    lines = [
        f"{' below '.join(filter(None, (row['resource_group'], row['parent'])))}: "
        f"{row['admitted'] / row['seconds']:,.0f} {unit_of(row['dimension'])}, of which "
        f"{row['guaranteed'] / row['seconds']:,.0f} guaranteed and "
        f"{row['borrowed'] / row['seconds']:,.0f} borrowed"
        for row in trees[:_SCREEN_GROUPS]
    ]
    if more := len(trees) - len(lines):
        lines.append(f"... and {more} more limits of groups in trees")
    return lines


def _skew(skew: Sequence[Value]) -> str:
    if not skew:
        return "clock skew unknown: no pair of brokers heard each other"
    widest = max(abs(row["skew_s"]) + row["uncertainty_s"] for row in skew)
    return f"clocks within {widest * 1000:.0f} ms of each other"


def signed(value: float | None) -> str:
    """A part as a signed percentage, or a dash."""
    return "-" if value is None else f"{value:+.2%}".replace("%", " %")


def _percent(value: float) -> str:
    return f"{value:.2%}".replace("%", " %")
