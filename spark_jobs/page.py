"""The report as one HTML file that opens without a network, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from spark_jobs.enforcement import demand_of, sentences
from spark_jobs.figures import DEFINITIONS
from spark_jobs.pictures import admitted, left_out, of_group
from spark_jobs.recording import Recording
from spark_jobs.report_data import Peer, ReportData, Value
from spark_jobs.style import STYLE
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

_LONG = 40
"""Of characters: longer text is broken into lines."""


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
    body = [
        f"<h1>{escape(headline(collected.events))}</h1>",
        _origin(recording, collected),
        _enforced(collected),
        _notes("Read this first", warnings),
        _notes("Targets missed", missed),
        _met(conditions, missed),
        _beside(recording.cluster, collected, peer) if peer else "",
        _events(collected, conditions),
        *(of_group(curves, collected.events, conditions) for curves in collected.curves),
        left_out("groups without a picture", collected.groups_left_out),
        _operations(collected),
        _trees(collected),
        _escaped(collected),
        _worst(collected),
        _buckets(collected),
        _quality(recording, collected),
        _definitions(),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Convergence report: {escape(recording.cluster)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _origin(recording: Recording, collected: ReportData) -> str:
    return (
        f'<p class="soft">Convergence report of cluster {escape(recording.cluster)}: '
        f"{sum(recording.rows.values()):,} recorded rows. {_span(collected)}</p>"
    )


def _span(collected: ReportData) -> str:
    seconds = [point["second"] for curves in collected.curves for point in curves.points]
    return f"From {moment(min(seconds))} to {moment(max(seconds))} UTC." if seconds else ""


def _enforced(collected: ReportData) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in sentences(collected.enforcement))


def _notes(title: str, notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<div class="note"><strong>{title}</strong><ul>{items}</ul></div>'


def _met(conditions: Sequence[FigureBound], missed: Sequence[str]) -> str:
    if missed or not conditions:
        return ""
    asked = escape(", ".join(map(str, conditions)))
    return f'<p class="note fine"><strong>Every event meets its targets</strong>: {asked}</p>'


def _beside(cluster: str, collected: ReportData, peer: Peer) -> str:
    ours, theirs = overall(collected.events), overall(peer.collected.events)
    rows = "".join(
        f"<tr><td>{escape(_HEADS.get(name, name.replace('_', ' ')))}</td>"
        f"<td>{figure(name, ours[name])}</td><td>{figure(name, theirs[name])}</td></tr>"
        for name in ours
    )
    pictures = "".join(
        f'<div class="beside">{admitted(cluster, own)}{admitted(peer.cluster, other)}</div>'
        for own in collected.curves
        for other in peer.collected.curves
        if (own.resource_group, own.dimension) == (other.resource_group, other.dimension)
    )
    return (
        f"<h2>Beside {escape(peer.cluster)}</h2>"
        f'<p class="soft">{escape(headline(peer.collected.events))} The worst of each figure over all'
        f" events. Demand is what was seen {escape(demand_of(peer.collected.enforcement))}: what a"
        " limiter behind it holds back is not in it, and flatters its shares.</p>"
        f'<div class="scroll"><table><thead><tr><th>figure</th><th>{escape(cluster)}</th>'
        f"<th>{escape(peer.cluster)}</th></tr></thead><tbody>{rows}</tbody></table></div>{pictures}"
        + _notes(f"What to mind of {escape(peer.cluster)}", peer.warnings)
    )


def _events(collected: ReportData, conditions: Sequence[FigureBound]) -> str:
    heads = "".join(f"<th>{_HEADS[name]}</th>" for name in _FIGURES)
    rows = "".join(_event_row(event, conditions) for event in collected.events)
    head = f'<tr><th>event</th><th class="l">group</th><th>limit</th>{heads}</tr>'
    return (
        '<h2>Events</h2><div class="scroll"><table class="wide">'
        f"<thead>{head}</thead><tbody>{rows}</tbody></table></div>"
        '<p class="soft">Grey rows are followed by fewer than five whole seconds and are not held to'
        " targets. A figure in red misses its target.</p>"
        + left_out("events, in the Parquet files", collected.events_left_out)
    )


def _event_row(event: Value, conditions: Sequence[FigureBound]) -> str:
    cells = []
    for name in _FIGURES:
        asked = [condition for condition in conditions if condition.name == name]
        value = event[name]
        bad = event["judged"] and any(
            not condition.holds(value)
            for condition in asked
            if value is not None or name == "settle_s"
        )
        cells.append(f"<td{' class=bad' if bad else ''}>{figure(name, value)}</td>")
    style = "" if event["judged"] else ' class="soft"'
    return (
        f'<tr{style}><td title="{moment(event["happened"])} UTC">{escape(title_of(event))}</td>'
        f'<td class="l">{escape(event["resource_group"])}</td>'
        f"<td>{_number(event['limit'])}</td>{''.join(cells)}</tr>"
    )


def _operations(collected: ReportData) -> str:
    rows = [
        {
            **row,
            "accepted": moment(row["accepted"]),
            "settled_after": _short_time(row["settle_s"]),
            "moved": "; ".join(_moved(row["moved"])),
        }
        for row in collected.operations
    ]
    columns = ("accepted", "resource_group", "text", "actor", "stage", "settled_after", "moved")
    return "<h2>Changes that people made</h2>" + _table(rows, columns)


def _moved(moved: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for dimension, by_broker in sorted(moved.items()):
        parts = (f"{broker} {gained:+,}" for broker, gained in sorted(by_broker.items()))
        yield f"{unit_of(dimension)}: {', '.join(parts)}"


def _trees(collected: ReportData) -> str:
    if not collected.trees:
        return ""
    rows = [
        {
            "group": row["resource_group"],
            "below": row["parent"],
            "limited": unit_of(row["dimension"]),
            "seconds": row["seconds"],
            **{name: round(row[name] / row["seconds"]) for name in _BY_SECOND},
            **{name: row[name] for name in ("limit", "guarantee", "entitled")},
        }
        for row in collected.trees
    ]
    columns = (
        "group", "below", "limited", "seconds", *_BY_SECOND, "limit", "guarantee", "entitled",
    )  # fmt: skip
    return (
        "<h2>Trees of groups</h2>"
        '<p class="soft">What each group and all groups below it admitted a second, how much of that was'
        " within its guarantee, and how much was borrowed: beyond what it has when all groups of its tree"
        " want everything. In the events above, the limit of such a group is its part of the tree.</p>"
        + _table(rows, columns)
    )


def _escaped(collected: ReportData) -> str:
    if not collected.escaped:
        return ""
    rows = [
        {**row, "first": moment(row["first"]), "last": moment(row["last"])}
        for row in collected.escaped
    ]
    columns = (
        "namespace", "monitoring_class", "bytes", "messages", "brokers", "first", "last",
    )  # fmt: skip
    return (
        "<h2>Round the gates</h2>"
        '<p class="soft">What brokers counted and no gate passed. No limit of a gate held it back.</p>'
        + _table(rows, columns)
    )


def _worst(collected: ReportData) -> str:
    rows = "".join(
        f"<tr><td>{moment(row['second'])}</td><td class=l>{escape(row['resource_group'])}</td>"
        f"<td>{_number(row['admitted'])}</td><td>{_number(row['limit'])}</td>"
        f"<td>{row['over']:+.1%}</td><td>{(row['worst'] or 0.0):.1%}</td>"
        f"<td class=l>{escape(row['furthest'])}</td>"
        f"<td class=l>{escape(' + '.join(row['kinds']))}, {row['second'] - row['happened']} s before</td>"
        "</tr>"
        for row in collected.worst
    )
    return (
        "<h2>Worst moments</h2>"
        '<p class="soft">The seconds in which most passed too much, or a broker was furthest from its'
        " share.</p>"
        '<div class="scroll"><table><thead><tr><th>second (UTC)</th><th class="l">group</th>'
        "<th>admitted</th><th>limit</th><th>over</th><th>furthest from its share, of C/N</th>"
        '<th class="l">which broker</th><th class="l">after what</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _buckets(collected: ReportData) -> str:
    rows = [
        {
            "group": row["resource_group"],
            "limited": unit_of(row["dimension"]),
            "bucket": f"{row['length_s']} s",
            "buckets": row["buckets"],
            "above_the_limit": row["above"],
            "worst": signed(row["peak"]),
            "latency_regret": signed(row["latency_regret"]),
        }
        for row in collected.buckets
    ]
    columns = (
        "group", "limited", "bucket", "buckets", "above_the_limit", "worst", "latency_regret",
    )  # fmt: skip
    return (
        "<h2>Buckets</h2>"
        '<p class="soft">What passed in buckets of 1, 5, 10 and 20 seconds, one after the other, over'
        " what the limit allows in that time; only buckets that were wholly recorded. Latency regret: how"
        " much longer clients waited than at one bucket for the whole limit, while they wanted all of it."
        "</p>" + _table(rows, columns)
    )


def _quality(recording: Recording, collected: ReportData) -> str:
    return (
        "<h2>Quality of the data</h2>"
        + _table(
            collected.recorded,
            ("broker", "runs", "seconds", "gaps", "seconds_missing", "rows_dropped"),
        )
        + "<h3>Gaps</h3>"
        + _table(
            [
                {**row, "from": moment(row["from_second"]), "to": moment(row["to_second"])}
                for row in collected.gaps
            ],
            ("broker", "from", "to", "cause"),
        )
        + "<h3>Clocks</h3>"
        '<p class="soft">Of b against a, from reports in both directions. Figures are not corrected.</p>'
        + _table(
            _in_ms(collected.skew, "skew_s", "uncertainty_s"),
            ("a", "b", "skew_ms", "uncertainty_ms", "reports"),
        )
        + "<h3>Age of a report when the next one came</h3>"
        + _table(collected.ages, ("receiver", "sender", "p50_s", "p99_s", "max_s", "reports"))
        + "<h3>Control traffic sent</h3>"
        + _table(
            collected.control, ("broker", "reports", "bytes", "bytes_per_second", "bytes_per_row")
        )
        + "<h3>Files</h3>"
        + ("" if recording.left_out else "<p>Every file was read.</p>")
        + _notes("Left out", recording.left_out)
    )


def _table(rows: Sequence[Value], columns: Sequence[str]) -> str:
    if not rows:
        return '<p class="soft">None.</p>'
    words = {column for column in columns if isinstance(rows[0][column], str)}
    heads = "".join(
        f"<th{' class=l' if column in words else ''}>{escape(column.replace('_', ' '))}</th>"
        for column in columns
    )
    body = "".join(
        "<tr>" + "".join(_cell(row[column]) for column in columns) + "</tr>" for row in rows
    )
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def _cell(value: Any) -> str:
    """Numbers stand below each other; text that is long is broken rather than hidden."""
    if not isinstance(value, str):
        return f"<td>{escape(_number(value))}</td>"
    return f'<td class="{"l long" if len(value) > _LONG else "l"}">{escape(value)}</td>'


def _in_ms(rows: Sequence[Value], *columns: str) -> list[Value]:
    """Rows in which some seconds are milliseconds."""
    told = {name: f"{name.removesuffix('_s')}_ms" for name in columns}
    return [
        {**row, **{ms: round(row[name] * 1_000, 2) for name, ms in told.items()}} for row in rows
    ]


def _short_time(seconds: float | None) -> str:
    """Of an operation: known to the millisecond, which is noise after whole seconds."""
    if seconds is None:
        return figure("settle_s", None)
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


_METHOD = """
C is a group's limit, N the brokers that take part, u what a broker admitted in a second, a* its exact
max-min share of C by what it wanted in that second. A broker whose producers were held for 90 % of a
second wants an unknown lot; held for 10 % and more, as much more than it admitted as it was held;
otherwise what it admitted. In the second of a change nothing is held to less
than the higher limit, and no broker needs to use more than the lower one.
"""


def _definitions() -> str:
    items = "".join(
        f"<dt>{_term(name)}</dt><dd>{escape(text)}</dd>" for name, text in DEFINITIONS.items()
    )
    return f"<h2>Method and definitions</h2><p>{_METHOD}</p><dl>{items}</dl>"


def _term(name: str) -> str:
    """A figure's name in figures.json, and before it that on this page, where it has one."""
    head = _HEADS.get(name)
    return escape(name) if head is None else f"{escape(head)} ({escape(name)})"


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
