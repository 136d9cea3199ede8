"""The tables of the pages, as Markdown, from the data that ``runs`` wrote; cog calls these by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks import sim
from benchmarks.pages.runs import LOSSES, MESSAGE_SIZES, Json, read, summaries
from benchmarks.sim import OURS
from coordinator.cli.scenario_runs import settled_rounds
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.trials import Summary

_Column = tuple[str, Callable[[Summary], str]]

_FIGURES: Final[Sequence[_Column]] = (
    ("settle, median", lambda row: settled_rounds(row, "median")),
    ("worst", lambda row: settled_rounds(row, "max")),
    ("peak second", lambda row: _percent(row.peak_overshoot)),
    ("Σ limits / C", lambda row: f"{row.max_sum_limits:.3f}"),
    ("utilisation", lambda row: _percent(row.utilisation)),
    ("Jain", lambda row: f"{row.jain:.4f}"),
    ("smallest share", lambda row: f"{row.min_share:.3f}"),
    ("regret", lambda row: _percent(row.regret)),
    ("changes/min", lambda row: f"{row.changes_per_minute:g}"),
)


def scenarios(policy: str) -> str:
    """Every scenario under one policy, with our law."""
    rows = [
        [f"**{name}** {SCENARIOS[name].title}", *(figure(row) for _, figure in _FIGURES)]
        for name in SCENARIOS
        for row in summaries(name)
        if (row.law, row.policy) == (OURS, policy)
    ]
    return _table(["scenario", *(title for title, _ in _FIGURES)], rows)


def laws(name: str) -> str:
    """One scenario, every law: ours as it is by default, the others as they act."""
    rows = [
        [f"**{row.law}**" if row.law == OURS else row.law, row.policy]
        + [figure(row) for _, figure in _FIGURES]
        for row in summaries(name)
        if row.law != OURS or row.policy != "eager"
    ]
    return _table(["law", "policy", *(title for title, _ in _FIGURES)], rows)


def definitions() -> str:
    """The events of every scenario."""
    rows = [
        [name, scenario.title, str(scenario.brokers), scenario.description]
        for name, scenario in SCENARIOS.items()
    ]
    return _table(["", "scenario", "N", "what happens"], rows, right_from=9)


def targets() -> str:
    """The promises, each with the worst of the scenarios that it covers, under each policy."""
    rows = []
    for figure, kind in sim.FIGURES.items():
        held = {policy: of.get(figure, {}) for policy, of in sim.TARGETS.items()}
        for target in sorted({value for of in held.values() for value in of.values()}):
            found = [
                _worst(figure, target, [name for name, at in of.items() if at == target], policy)
                for policy, of in held.items()
            ]
            names = sorted(
                {name for of in held.values() for name, at in of.items() if at == target},
                key=list(SCENARIOS).index,
            )
            sign = "≤" if kind.better == "lower" else "≥"
            rows.append(
                [figure.replace("-", " "), f"{sign} {target:g} {kind.unit}", *found, _list(names)]
            )
    return _table(["", "target", *sim.TARGETS, "in"], rows)


def loss() -> str:
    """Rounds to settle, by share of reports lost: median and worst."""
    rows = [
        [row["policy"], _share(row["loss"]), *_spread(row["settle_rounds"])]
        for policy in POLICIES
        for share in LOSSES
        for row in read("loss")["rows"]
        if (row["policy"], row["loss"]) == (policy, share)
    ]
    return _table(["policy", "reports lost", "seeds", "median", "worst"], rows, right_from=1)


def rotation() -> str:
    """S9, the later the reports are."""
    rows = [
        [
            row.policy,
            f"{row.delay:g}",
            _percent(row.utilisation),
            _percent(row.regret),
            _percent(row.peak_overshoot),
            f"{row.max_sum_limits:.2f}",
        ]
        for row in summaries("rotation")
    ]
    titles = ["policy", "rounds late", "utilisation", "regret", "peak second", "Σ limits / C"]
    return _table(titles, rows, right_from=1)


def reclaim() -> str:
    """S6: when a dead broker's part is back."""
    rows = [
        [
            row.policy,
            f"{row.reclaim_seconds['max']:.1f} s",
            settled_rounds(row, "max"),
            str(row.seeds),
        ]
        for row in summaries("S6")
        if row.law == OURS
    ]
    titles = ["policy", "Σ limits back at 99 % of C, worst", "settled, worst round", "seeds"]
    return _table(titles, rows, right_from=1)


def joint() -> str:
    """Messages and bytes at once: each broker's dominant share, and the use of each limit."""
    titles = {OURS: "split in one (max-min)", "doorman-fair": "each for itself (Doorman's law)"}
    rows = []
    for law, title in titles.items():
        used = [_used(run) for run in read("joint")["runs"] if run["law"] == law]
        shares = [max(of[f"{size} B"] for of in used) for size in MESSAGE_SIZES]
        rows.append([title, *map(_percent, shares), *(_percent(sum(of.values())) for of in used)])
    sizes = [f"share of {size:,} B" for size in MESSAGE_SIZES]
    return _table(["", *sizes, "messages used", "bytes used"], rows, right_from=1)


def _worst(figure: str, target: float, names: Sequence[str], policy: str) -> str:
    """The worst of a figure with its scenario, if that is not as promised; - where nothing is."""
    kind = sim.FIGURES[figure]
    found = {
        name: _number(kind.read(row))
        for name in names
        for row in summaries(name)
        if (row.law, row.policy) == (OURS, policy)
    }
    if not found:
        return "-"
    worse = max if kind.better == "lower" else min
    value = worse(found.values())
    missed = [
        name
        for name, each in found.items()
        if (each > target if kind.better == "lower" else each < target)
    ]
    return f"**{value:g}** (missed in {_list(missed)})" if missed else f"{value:g}"


def _number(value: float | None) -> float:
    return float("inf") if value is None else value


def _list(names: Sequence[str]) -> str:
    return "all" if len(names) == len(SCENARIOS) else ", ".join(names)


def _used(told: Json) -> dict[str, float]:
    """The part of the limit that each broker used, in the second half of the run."""
    half = len(told["limit"]) // 2
    whole = sum(told["limit"][half:])
    return {name: sum(values[half:]) / whole for name, values in told["admitted"].items()}


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], right_from: int = 2) -> str:
    rule = ["---" if place < right_from else "---:" for place in range(len(titles))]
    lines = [f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows)]
    return "\n" + "\n".join(lines) + "\n"


def _percent(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


def _share(value: float) -> str:
    return f"{value:.0%}".replace("%", " %")


def _spread(rounds: Sequence[int | None]) -> list[str]:
    ordered = sorted(float("inf") if value is None else value for value in rounds)
    found = (ordered[(len(ordered) - 1) // 2], ordered[-1])
    return [
        str(len(rounds)),
        *("never" if value == float("inf") else f"{value:g}" for value in found),
    ]
