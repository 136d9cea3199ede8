"""A run as a picture: one HTML page with drawings in it, which needs no network and no script.

Per scenario: the aggregate against the group's limit and the ideal central bucket, and below it each
broker, its limit in force as a line over what it admitted, an area, and, fainter, what it wanted. All
brokers have the same scale. Dotted marks are events.
Colours follow the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from coordinator.simulation.experiment import allowed_per_step, central_per_second, series_of
from coordinator.simulation.recording import GroupRecord, Track

_WIDTH = 960
_LEFT = 64
_MOST_BROKERS = 12
_MOST_POINTS = 900

_STYLE = """
:root { --ink: #1f2328; --faint: #59636e; --paper: #ffffff; --rule: #d1d9e0;
  --limit: #c2410c; --admitted: #0969da; --wanted: #8c959f; --central: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f6fc; --faint: #9198a1; --paper: #0d1117;
  --rule: #3d444d; --limit: #f0883e; --admitted: #4493f8; --wanted: #6e7681; --central: #3fb950; } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--faint); font-size: 12px; }
.rule { stroke: var(--rule); } .event { stroke: var(--faint); stroke-dasharray: 2 4; }
.line { fill: none; stroke-width: 1.6; } .limit { stroke: var(--limit); }
.admitted { fill: var(--admitted); fill-opacity: .3; } .wanted { stroke: var(--wanted); stroke-width: 1; }
.central { stroke: var(--central); stroke-dasharray: 5 3; } .faint { color: var(--faint); }
.key { display: inline-block; width: 1.6rem; border-top: 3px solid; margin: 0 .35rem .25rem 1rem; }
h3 { margin: 1rem 0 0; font-size: 1rem; }
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """One scenario's part of the page.

    Args:
        title: the heading.
        description: one line below it.
        record: the group to draw.
        events: seconds to mark.
    """

    title: str
    description: str
    record: GroupRecord
    events: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Line:
    kind: str
    values: Sequence[int]


def page(pictures: Sequence[Picture]) -> str:
    """All pictures as one HTML document."""
    keys = "".join(
        f'<span class="key" style="border-color:var(--{kind})"></span>{name}'
        for kind, name in (
            ("limit", "limit"),
            ("admitted", "admitted"),
            ("wanted", "wanted (cut at the top)"),
            ("central", "ideal central bucket"),
        )
    )
    body = "".join(_section(picture) for picture in pictures)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>pulsar-quota simulate</title><style>{_STYLE}</style></head><body>"
        f"<h1>Simulated: limits and traffic</h1><p>Messages or bytes per second, by second.{keys}</p>"
        f"{body}</body></html>\n"
    )


def _section(picture: Picture) -> str:
    record = picture.record
    series = series_of(record)
    admitted = [series.total_admitted(second) for second in range(record.seconds)]
    central = central_per_second(record, allowed_per_step(record))
    lines = (
        _Line("admitted", admitted),
        _Line("limit", series.limits),
        _Line("central", central),
    )
    parts = [
        f"<section><h2>{escape(picture.title)}</h2><p>{escape(picture.description)}</p>",
        "<h3>All brokers together</h3>",
        _chart(lines, record.seconds, _top(series.limits, admitted), picture.events, 200),
    ]
    shown = sorted(record.tracks.items())[:_MOST_BROKERS]
    top = max((_top(track.limits, track.admitted) for _, track in shown), default=1.0)
    for broker, track in shown:
        parts.append(f"<h3>{escape(broker)}</h3>")
        parts.append(_chart(_broker_lines(track), record.seconds, top, picture.events, 96))
    hidden = len(record.tracks) - len(shown)
    if hidden:
        parts.append(f'<p class="faint">{hidden} more brokers are not drawn.</p>')
    return "".join([*parts, "</section>"])


def _top(*values: Sequence[int]) -> float:
    return max(1, *(max(series) for series in values)) * 1.1


def _broker_lines(track: Track) -> tuple[_Line, ...]:
    return (
        _Line("wanted", track.wanted),
        _Line("admitted", track.admitted),
        _Line("limit", track.limits),
    )


def _chart(
    lines: Sequence[_Line], seconds: int, top: float, events: Sequence[int], height: int
) -> str:
    bottom = height - 18
    per_second = (_WIDTH - _LEFT - 8) / seconds

    def across(second: float) -> float:
        return _LEFT + second * per_second

    def up(value: float) -> float:
        return bottom - min(value, top) / top * (bottom - 6)

    names = ", ".join(line.kind for line in lines)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{names} over time">']
    for share in (0.0, 0.5, 1.0):
        value = top / 1.1 * share
        parts.append(
            f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{up(value):.1f}" '
            f'y2="{up(value):.1f}"/><text x="{_LEFT - 6}" y="{up(value) + 4:.1f}" '
            f'text-anchor="end">{value:,.0f}</text>'
        )
    parts += [
        f'<line class="event" x1="{across(event):.1f}" x2="{across(event):.1f}" y1="6" '
        f'y2="{bottom}"/>'
        for event in events
    ]
    parts += [
        f'<text x="{across(mark):.1f}" y="{height - 4}" text-anchor="middle">{mark} s</text>'
        for mark in range(0, seconds, max(1, seconds // 8))
    ]
    stride = max(1, seconds // _MOST_POINTS)
    last = range(0, seconds, stride)[-1]
    for line in lines:
        points = " ".join(
            f"{across(second + 0.5):.1f},{up(line.values[second]):.1f}"
            for second in range(0, seconds, stride)
        )
        if line.kind == "admitted":
            feet = f"{across(0.5):.1f},{bottom} {points} {across(last + 0.5):.1f},{bottom}"
            parts.append(f'<polygon class="admitted" points="{feet}"/>')
        else:
            parts.append(f'<polyline class="line {line.kind}" points="{points}"/>')
    return "".join([*parts, "</svg>"])
