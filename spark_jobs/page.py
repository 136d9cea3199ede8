"""The report as one HTML file that opens without a network, in light and dark.

templates/report.html has its words; here are the values that it shows, as people read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from spark_jobs import charts
from spark_jobs.enforcement import demand_of, sentences
from spark_jobs.figures import DEFINITIONS
from spark_jobs.look import HALF
from spark_jobs.pages import rendered
from spark_jobs.recording import Recording
from spark_jobs.report_data import Curves, Peer, ReportData, Value, curves_of
from spark_jobs.summary import figure, headline, moment, overall, signed, title_of, unit_of
from spark_jobs.targets import FigureBound

_FIGURES = (
    "settle_s", "jain", "min_share", "error", "peak_1s", "peak_10s", "time_over_101", "utilisation",
    "regret", "oscillation", "starvation_s", "reclaim_s", "certificates_broken",
    "seconds_unknown",
)  # fmt: skip
_HEADS = {
    "settle_s": "settle", "jain": "Jain", "min_share": "least share", "error": "error",
    "peak_1s": "peak 1 s", "peak_10s": "peak 10 s", "time_over_101": "over 1.01\N{NO-BREAK SPACE}C",
    "utilisation": "utilisation", "regret": "regret", "oscillation": "oscillation",
    "starvation_s": "starved", "reclaim_s": "reclaim",
    "certificates_broken": "broken certificates", "seconds_unknown": "unknown",
}  # fmt: skip

_BY_SECOND = ("admitted", "guaranteed", "borrowed")
"""Of a tree's groups, shown as rates."""

_FORMS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("second", "first", "last", "accepted", "from_second", "to_second"), moment),
    **dict.fromkeys(("over", "peak", "latency_regret"), signed),
    **dict.fromkeys(("skew_s", "uncertainty_s"), lambda seconds: f"{1_000 * seconds:,.2f}"),
    "worst": lambda part: f"{part or 0.0:.1%}",
    "length_s": lambda seconds: f"{seconds} s",
    "dimension": unit_of,
}
"""The form of the columns that are no plain numbers or words."""


def page(
    recording: Recording,
    collected: ReportData,
    *,
    warnings: Sequence[str],
    conditions: Sequence[FigureBound],
    missed: Sequence[str],
    peer: Peer | None = None,
) -> str:
    """The whole page."""

    def misses(event: Value, name: str) -> bool:
        asked = (condition for condition in conditions if condition.name == name)
        return event["judged"] and any(each.misses(event) for each in asked)

    drawn = curves_of(collected)
    return rendered(
        "report.html",
        {"figure": _figure, "moment": moment, "shown": shown, "told": title_of},
        recording=recording,
        data=collected,
        headline=headline(collected.events),
        span=_span(drawn),
        enforced=sentences(collected.enforcement),
        warnings=warnings,
        conditions=conditions,
        missed=missed,
        misses=misses,
        figures=_FIGURES,
        heads=_HEADS,
        groups=[_group(curves, collected.events, conditions) for curves in drawn],
        operations=[_operation(row) for row in collected.operations],
        trees=[_tree(row) for row in collected.trees],
        worst_seconds=[_worst(row) for row in collected.worst_seconds],
        definitions=DEFINITIONS,
        **_beside(collected, drawn, peer),
    )


def shown(value: Any, column: str = "") -> str:
    """A value of a table as people read it."""
    if value is None:
        return "-"
    if column in _FORMS:
        return _FORMS[column](value)
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _figure(value: Any, name: str, *, judged: bool = True) -> str:
    return figure(name, value, judged=judged)


def _span(drawn: Sequence[Curves]) -> str:
    seconds = [second for curves in drawn for second in curves.points]
    return f"From {moment(min(seconds))} to {moment(max(seconds))} UTC." if seconds else ""


def _name(curves: Curves) -> str:
    return f"{curves.resource_group}, {unit_of(curves.dimension)}"


def _beside(collected: ReportData, drawn: Sequence[Curves], peer: Peer | None) -> dict[str, Any]:
    if peer is None:
        return {"peer": None}

    def chart(curves: Curves) -> dict[str, Any]:
        title = _name(curves)
        return {"title": title, "chart": charts.against_the_limit(title, curves, width=HALF)}

    return {
        "peer": peer,
        "peer_headline": headline(peer.collected.events),
        "peer_demand": demand_of(peer.collected.enforcement),
        "overall": overall(collected.events),
        "peer_overall": overall(peer.collected.events),
        "beside": [
            (chart(own), chart(other))
            for own in drawn
            for other in curves_of(peer.collected)
            if _name(own) == _name(other)
        ],
    }


def _group(
    curves: Curves, events: Sequence[Value], conditions: Sequence[FigureBound]
) -> dict[str, Any]:
    of_group = (curves.resource_group, curves.dimension)
    own = [event for event in events if (event["resource_group"], event["dimension"]) == of_group]
    target = next((each.bound for each in conditions if each.name == "settle_s"), None)
    name = _name(curves)
    return {
        "name": name,
        "step_s": curves.step_s,
        "left_out": curves.brokers_left_out,
        "admitted": charts.against_the_limit(f"{name}: admitted against the limit", curves, own),
        "by_broker": charts.by_broker(f"{name}: by broker", curves, own),
        "settling": charts.settle_times(f"{name}: settle times", own, target) if own else None,
        "shares": charts.shares(f"{name}: part of its fair share that each broker got", curves),
    }


def _operation(row: Value) -> dict[str, Any]:
    seconds = row["settle_s"]
    if seconds is None:
        after = figure("settle_s", None)
    else:  # known to the millisecond, which is noise after whole seconds
        after = f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    return {**row, "settled_after": after, "gains": "; ".join(_moved(row["moved"]))}


def _moved(moved: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for dimension, by_broker in sorted(moved.items()):
        parts = (f"{broker} {gained:+,}" for broker, gained in sorted(by_broker.items()))
        yield f"{unit_of(dimension)}: {', '.join(parts)}"


def _tree(row: Value) -> dict[str, Any]:
    return {**row, **{name: round(row[name] / row["seconds"]) for name in _BY_SECOND}}


def _worst(row: Value) -> dict[str, Any]:
    after = f"{' + '.join(row['kinds'])}, {row['second'] - row['happened']} s before"
    return {**row, "after": after}
