"""The report as one HTML file that opens without a network, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from spark_jobs.collected import Collected, Peer, Value
from spark_jobs.figures import DEFINITIONS
from spark_jobs.intake import Intake
from spark_jobs.pictures import admitted, left_out, of_group
from spark_jobs.summary import figure, headline, moment, overall, title_of, unit_of
from spark_jobs.targets import Condition

_FIGURES = (
    "settle_s", "jain", "min_share", "error", "peak_1s", "peak_10s", "time_over_101", "utilisation",
    "regret", "oscillation", "starvation_s", "reclaim_s", "certificates_broken",
    "seconds_unknown",
)  # fmt: skip
_HEADS = {
    "settle_s": "settle", "jain": "Jain", "min_share": "least share", "error": "error",
    "peak_1s": "peak 1 s", "peak_10s": "peak 10 s", "time_over_101": "time > 1.01 C",
    "utilisation": "utilisation", "regret": "regret", "oscillation": "oscillation",
    "starvation_s": "starved", "reclaim_s": "reclaim",
    "certificates_broken": "broken certificates", "seconds_unknown": "unknown",
}  # fmt: skip

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d9dee5;--paper:#fff;--card:#f6f8fa;
--bad:#b3261e;--good:#1a7f4b;--accent:#0b62c4;--warn:#fff4d6}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa6b5;--line:#343d49;--paper:#12161c;
--card:#1b2129;--bad:#ff8a80;--good:#5fd398;--accent:#6fb1ff;--warn:#3b3115}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:25px;line-height:1.3;margin:0 0 6px}h2{font-size:19px;margin:38px 0 8px}
h3{font-size:16px;margin:22px 0 4px}p{margin:6px 0}.soft{color:var(--soft)}
.warn{background:var(--warn);border-radius:6px;padding:10px 14px;margin:14px 0}
.warn ul{margin:4px 0;padding-left:20px}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}
th,td{padding:5px 9px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600}th:first-child,td:first-child,td.l,th.l{text-align:left}
td.bad{color:var(--bad);font-weight:600}tr.soft td{color:var(--soft)}
svg{display:block;width:100%;height:auto}.grid{stroke:var(--line)}.tick{fill:var(--soft);font-size:11px}
.label{fill:var(--ink);font-size:12px}.mark{stroke:var(--soft);stroke-dasharray:2 3}
.line{fill:none;stroke-width:1.8}.limit{stroke:var(--bad);stroke-width:1.6;stroke-dasharray:6 4;fill:none}
.sum{stroke:var(--accent)}.top{stroke:var(--accent);opacity:.35}.bar{fill:var(--accent)}
.bar.late{fill:var(--bad)}.bar.soft{fill:var(--soft)}
.c0{stroke:#0072b2}.c1{stroke:#e69f00}.c2{stroke:#009e73}.c3{stroke:#cc79a7}.c4{stroke:#56b4e9}
.c5{stroke:#d55e00}.c6{stroke:#8c8c00}.c7{stroke:#8a8f98}
.h0{fill:#1f9d63}.h1{fill:#8fce8a}.h2{fill:#f2d16b}.h3{fill:#ec9a4c}.h4{fill:#c8402f}.over{fill:#6a5acd}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:2px 0 10px;padding:0;
font-size:13px;color:var(--soft)}.legend li{display:flex;align-items:center;gap:6px}
.legend svg{width:22px;height:8px}.key{width:12px;height:12px;border-radius:2px;display:inline-block}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:0 20px}
dt{font-weight:600;margin-top:8px}dd{margin:0;color:var(--soft)}
"""


def page(
    intake: Intake,
    collected: Collected,
    *,
    warnings: Sequence[str],
    conditions: Sequence[Condition],
    missed: Sequence[str],
    peer: Peer | None = None,
) -> str:
    """The whole page."""
    body = [
        f"<h1>{escape(headline(collected.events))}</h1>",
        _origin(intake, collected),
        _notes("Read this first", warnings),
        _notes("Targets missed", missed),
        _beside(intake.cluster, collected, peer) if peer else "",
        _events(collected, conditions),
        *(of_group(curves, collected.events, conditions) for curves in collected.curves),
        left_out("groups without a picture", collected.groups_left_out),
        _operations(collected),
        _worst(collected),
        _quality(intake, collected),
        _definitions(),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Convergence report: {escape(intake.cluster)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _origin(intake: Intake, collected: Collected) -> str:
    files = sum(len(paths) for paths in intake.paths.values())
    return (
        f'<p class="soft">Convergence report of cluster {escape(intake.cluster)}: '
        f"{sum(intake.rows.values()):,} recorded rows in {files:,} files. {_span(collected)}</p>"
    )


def _span(collected: Collected) -> str:
    seconds = [point["second"] for curves in collected.curves for point in curves.points]
    return f"From {moment(min(seconds))} to {moment(max(seconds))} UTC." if seconds else ""


def _notes(title: str, notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<div class="warn"><strong>{title}</strong><ul>{items}</ul></div>'


def _beside(cluster: str, collected: Collected, peer: Peer) -> str:
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
        " events. Demand is what was seen at the gate: what a limiter behind it holds back is not"
        " in it, and flatters its shares.</p>"
        f'<div class="scroll"><table><thead><tr><th>figure</th><th>{escape(cluster)}</th>'
        f"<th>{escape(peer.cluster)}</th></tr></thead><tbody>{rows}</tbody></table></div>{pictures}"
        + _notes(f"What to mind of {escape(peer.cluster)}", peer.warnings)
    )


def _events(collected: Collected, conditions: Sequence[Condition]) -> str:
    heads = "".join(f"<th>{_HEADS[name]}</th>" for name in _FIGURES)
    rows = "".join(_event_row(event, conditions) for event in collected.events)
    return (
        "<h2>Events</h2>"
        '<div class="scroll"><table><thead><tr><th>event</th><th class="l">group</th><th>limit</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        '<p class="soft">Grey rows are followed by fewer than five whole seconds and are not held to'
        " targets. A figure in red misses its target.</p>"
        + left_out("events, in the Parquet files", collected.events_left_out)
    )


def _event_row(event: Value, conditions: Sequence[Condition]) -> str:
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


def _operations(collected: Collected) -> str:
    rows = [
        {
            **row,
            "accepted": moment(row["accepted"]),
            "settled_after": figure("settle_s", row["settle_s"]),
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


def _worst(collected: Collected) -> str:
    rows = "".join(
        f"<tr><td>{moment(row['second'])}</td><td class=l>{escape(row['resource_group'])}</td>"
        f"<td>{_number(row['admitted'])}</td><td>{_number(row['limit'])}</td>"
        f"<td>{row['over']:+.1%}</td><td>{(row['worst'] or 0.0):.0%}</td>"
        f"<td class=l>{escape(row['furthest'])}</td>"
        f"<td class=l>{escape(' + '.join(row['kinds']))}, {row['second'] - row['happened']} s before</td>"
        "</tr>"
        for row in collected.worst
    )
    return (
        "<h2>Worst moments</h2>"
        '<div class="scroll"><table><thead><tr><th>second (UTC)</th><th class="l">group</th>'
        "<th>admitted</th><th>limit</th><th>over</th><th>furthest from its share, of C/N</th>"
        '<th class="l">which broker</th><th class="l">after what</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _quality(intake: Intake, collected: Collected) -> str:
    skipped = [f"{item.path}: {item.reason}" for item in intake.skipped]
    facts = [
        f"{intake.duplicates} copies of files were skipped.",
        f"{intake.replaced} files were skipped whose rows are in merged ones.",
        f"{intake.unfinished} unfinished files were left alone.",
    ]
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
        + _table(collected.skew, ("a", "b", "skew_s", "uncertainty_s", "reports"))
        + "<h3>Age of a report when the next one came</h3>"
        + _table(collected.ages, ("receiver", "sender", "p50_s", "p99_s", "max_s", "reports"))
        + "<h3>Control traffic sent</h3>"
        + _table(
            collected.control, ("broker", "reports", "bytes", "bytes_per_second", "bytes_per_row")
        )
        + "<h3>Files</h3>"
        + "".join(f"<p>{escape(fact)}</p>" for fact in facts)
        + _notes("Skipped files", skipped)
    )


def _table(rows: Sequence[Value], columns: Sequence[str]) -> str:
    if not rows:
        return '<p class="soft">None.</p>'
    heads = "".join(f"<th>{escape(column.replace('_', ' '))}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_number(row[column]))}</td>" for column in columns) + "</tr>"
        for row in rows
    )
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


_METHOD = """
C is a group's limit, N the brokers that take part, u what a broker admitted in a second, a* its exact
max-min share of C by what it wanted in that second. A broker whose producers were held for 90 % of a
second wants an unknown lot; held for 10 % and more, as much more than it admitted as it was held;
otherwise what it admitted. In the second of a change nothing is held to less
than the higher limit, and nobody must use more than the lower one.
"""


def _definitions() -> str:
    items = "".join(
        f"<dt>{escape(_HEADS.get(name, name))} ({escape(name)})</dt><dd>{escape(text)}</dd>"
        for name, text in DEFINITIONS.items()
    )
    return f"<h2>Method and definitions</h2><p>{_METHOD}</p><dl>{items}</dl>"


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
