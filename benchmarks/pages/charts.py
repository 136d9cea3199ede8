"""The charts of the pages, drawn from their data, each once for a light and once for a dark page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from benchmarks import sim
from benchmarks.pages import rooms
from benchmarks.pages.look import BROKERS, LOOKS, POLICY_COLOURS, Look, legend, settings
from benchmarks.pages.runs import COMPARED, DELAYS, LOSSES, Json, read, summaries
from benchmarks.sim import OURS
from coordinator.core.allocation.laws import ALL_LAWS, Claim, max_min
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.trials import Summary
from spark_jobs.look import DASHES

FOLDER: Final = Path(__file__).parents[2] / "docs" / "figures"

LAW_TITLES: Final = {
    "max-min": "max-min, balanced (ours)",
    "pulsar": "Pulsar's formula",
    "tdmq": "TDMQ",
    "rateguard": "rateguard",
    "grd": "GRD (DRL, Uber)",
    "doorman-fair": "Doorman, fair share",
}
DEMANDS: Final = (50, 150, 400, 900, 2_000)


def draw_all() -> None:
    """Draw every chart anew."""
    for look in LOOKS:
        with mpl.rc_context(settings(look)):
            for name, draw in CHARTS.items():
                figure = draw(look)
                figure.savefig(
                    FOLDER / f"{name}-{look.name}.svg", metadata={"Date": None}, bbox_inches="tight"
                )
                plt.close(figure)


def water_filling(look: Look) -> Figure:
    """The limit poured over the demands of S2."""
    figure, axes = plt.subplots(figsize=(8, 3.1))
    names = [f"broker-{number}" for number in range(1, len(DEMANDS) + 1)]
    claims = {name: Claim(wants) for name, wants in zip(names, DEMANDS, strict=True)}
    answer = max_min(1_000, claims)
    top = 1_000
    axes.bar(names, [min(top, wants) for wants in DEMANDS], color=look.rule, width=0.62)
    axes.bar(names, [answer.targets[name] for name in names], color=BROKERS[0], width=0.62)
    assert answer.water_level is not None
    axes.axhline(answer.water_level, color=BROKERS[1], linestyle=DASHES)
    axes.text(4.4, answer.water_level + 18, f"level {answer.water_level}", color=BROKERS[1])
    for place, (name, wants) in enumerate(zip(names, DEMANDS, strict=True)):
        above = min(top, max(wants, answer.water_level)) + 18
        gets = f"wants {wants:,}\ngets {answer.targets[name]:,}"
        axes.text(place, above, gets, ha="center", va="bottom", fontsize=9)
    axes.set_ylim(0, 1_270)
    axes.set_ylabel("messages per second")
    axes.grid(visible=False, axis="x")
    return figure


def step_of_demand(look: Look) -> Figure:
    """S3 under six laws: what each broker gets."""
    figure, grid = plt.subplots(2, 3, figsize=(9.6, 5.0), sharex=True, sharey=True)
    for axes, told in zip(grid.flat, read("step")["runs"], strict=True):
        seconds = _seconds(told)
        steps, *saturated = told["admitted"].values()
        axes.plot(seconds, steps, color=BROKERS[0], label="steps 100 → 900 → 100")
        for number, admitted in enumerate(saturated):
            label = "" if number else "saturated"
            axes.plot(seconds, admitted, color=BROKERS[2], label=label)
        axes.plot(seconds, _together(told), color=BROKERS[1], label="all together")
        _limit_line(axes, told, look)
        axes.set_title(LAW_TITLES[told["law"]])
        axes.set_ylim(0, 2_200)
    for axes in grid[1]:
        axes.set_xlabel("seconds")
    legend(figure, grid[0, 0])
    return figure


def flash_crowd(look: Look) -> Figure:
    """S10 with losses under each policy: limits in force and traffic, over C."""
    return _by_policy("crowd", look)


def crash(look: Look) -> Figure:
    """S6 under each policy: when the dead broker's part is back."""
    return _by_policy("crash", look)


def loss(look: Look) -> Figure:  # noqa: ARG001  # every chart has the same signature
    """The number of seeds that have settled, by rounds."""
    rows = read("loss")["rows"]
    figure, grid = plt.subplots(1, len(LOSSES), figsize=(9.6, 2.9), sharey=True)
    for axes, share in zip(grid, LOSSES, strict=True):
        for row in rows:
            if row["loss"] == share:
                rounds, parts = _cumulative(row["settle_rounds"])
                axes.step(
                    rounds, parts, where="post", color=POLICY_COLOURS[row["policy"]],
                    label=row["policy"],
                )  # fmt: skip
        axes.set_title(f"{share:.0%} of the reports lost".replace("%", " %"))
        axes.set_xlabel("rounds")
        axes.set_xlim(0, 12)
        axes.set_ylim(0, 103)
    grid[0].set_ylabel("% of seeds settled")
    legend(figure, grid[0])
    return figure


def rotation(look: Look) -> Figure:  # noqa: ARG001  # every chart has the same signature
    """S9: utilisation and regret, the later the reports are."""
    rows = summaries("rotation")
    figure, grid = plt.subplots(1, 2, figsize=(9.6, 2.9))
    chosen = {"utilisation": "utilisation", "peak-overshoot": "peak second over C"}
    for axes, (name, title) in zip(grid, chosen.items(), strict=True):
        for policy in POLICIES:
            values = [100 * _figure(name, row) for row in rows if row.policy == policy]
            colour = POLICY_COLOURS[policy]
            axes.plot(DELAYS, values, marker="o", color=colour, label=policy)
        axes.set_title(title)
        axes.set_xlabel("reports late by, rounds")
        axes.set_ylabel("%")
        axes.set_ylim(bottom=0)
        axes.set_xticks(DELAYS)
    legend(figure, grid[0])
    return figure


def joint(look: Look) -> Figure:
    """Messages and bytes at once: what each broker may send of the unit that binds."""
    runs = read("joint")["runs"]
    figure, grid = plt.subplots(1, 2, figsize=(9.6, 2.9), sharey=True)
    titles = {
        OURS: "split in one (max-min)",
        "doorman-fair": "each limit for itself (Doorman's law)",
    }
    for axes, (law, title) in zip(grid, titles.items(), strict=True):
        of_law = [run for run in runs if run["law"] == law]
        for unit, colour, told in zip(("messages", "bytes"), BROKERS[:2], of_law, strict=True):
            parts = [100 * a / c for a, c in zip(_together(told), told["limit"], strict=True)]
            axes.plot(_seconds(told), parts, color=colour, label=f"{unit} used")
        axes.axhline(100, color=look.faint, linewidth=1, linestyle=DASHES)
        axes.set_title(title)
        axes.set_xlabel("seconds")
        axes.set_ylim(0, 112)
    grid[0].set_ylabel("% of the group's limit")
    legend(figure, grid[0])
    return figure


def shares(look: Look) -> Figure:
    """Scenario by law: the smallest steady share."""
    return _table_of_colours(
        look, "smallest-share", lambda value: f"{value:.2f}", _goodness_of_share
    )


def peaks(look: Look) -> Figure:
    """Scenario by law: the worst second."""
    return _table_of_colours(
        look,
        "peak-overshoot",
        lambda value: f"{value:+.0%}" if value >= 0.005 else "0",
        _goodness_of_peak,
    )


CHARTS: Final[Mapping[str, Callable[[Look], Figure]]] = {
    "water-filling": water_filling,
    "step-of-demand": step_of_demand,
    "smallest-shares": shares,
    "peaks": peaks,
    "flash-crowd": flash_crowd,
    "crash": crash,
    "settling-under-loss": loss,
    "rotation": rotation,
    "messages-and-bytes": joint,
    "rooms": rooms.picture,
}
"""Every chart by the name of its file, without the look."""


def _by_policy(name: str, look: Look) -> Figure:
    figure, grid = plt.subplots(1, len(POLICIES), figsize=(9.6, 3.0), sharex=True, sharey=True)
    for axes, told in zip(grid, read(name)["runs"], strict=True):
        seconds, admitted = _seconds(told), _together(told)
        axes.fill_between(seconds, admitted, color=BROKERS[0], alpha=0.28, linewidth=0)
        axes.plot(seconds, admitted, color=BROKERS[0], label="admitted")
        axes.plot(seconds, told["sum_of_limits"], color=BROKERS[1], label="sum of limits in force")
        _limit_line(axes, told, look)
        axes.set_title(told["policy"])
        axes.set_xlabel("seconds")
        axes.margins(x=0)
    grid[0].set_ylim(bottom=0)
    grid[0].set_ylabel("messages per second")
    legend(figure, grid[0])
    return figure


def _table_of_colours(
    look: Look, figure_name: str, text: Callable[[float], str], goodness: Callable[[float], float]
) -> Figure:
    columns = [*((OURS, policy) for policy in ("balanced", "strict")), *_others()]
    names = COMPARED
    values = []
    for name in names:
        found = {(row.law, row.policy): _figure(figure_name, row) for row in summaries(name)}
        values.append([found[column] for column in columns])
    shades = LinearSegmentedColormap.from_list("goodness", [look.bad, look.paper, look.good])
    figure, axes = plt.subplots(figsize=(9.6, 0.29 * len(names) + 1.3))
    axes.imshow(
        [[goodness(value) for value in row] for row in values],
        cmap=shades, vmin=0, vmax=1, aspect="auto",
    )  # fmt: skip
    for line, row in enumerate(values):
        for place, value in enumerate(row):
            axes.text(place, line, text(value), ha="center", va="center", fontsize=8)
    labels = [law if law != OURS else f"{law}\n{policy}" for law, policy in columns]
    axes.set_xticks(range(len(columns)), labels, rotation=35, ha="left", color=look.ink)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(names)), [f"{name}  {SCENARIOS[name].title}" for name in names])
    axes.tick_params(axis="y", labelcolor=look.ink)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.axvline(1.5, color=look.faint, linewidth=1.2)
    return figure


def _others() -> Iterator[tuple[str, str]]:
    return ((law, "eager") for law in ALL_LAWS if law != OURS)


def _figure(name: str, row: Summary) -> float:
    value = sim.FIGURES[name].read(row)
    assert value is not None
    return value


def _goodness_of_share(value: float) -> float:
    """1 at a whole share, 0.5 at 0.95, 0 at 0.5 and below."""
    return min(1.0, 0.5 + (value - 0.95) * 10) if value > 0.95 else max(0.0, (value - 0.5) / 0.9)


def _goodness_of_peak(value: float) -> float:
    """1 without an excess, 0.5 at 5 %, 0 at 50 % and above."""
    return 1 - value * 10 if value < 0.05 else max(0.0, 0.5 - (value - 0.05) / 0.9)


def _seconds(told: Json) -> range:
    begin: int = told["begin"]
    return range(begin, begin + len(told["limit"]))


def _together(told: Json) -> list[int]:
    return [sum(values) for values in zip(*told["admitted"].values(), strict=True)]


def _limit_line(axes: Axes, told: Json, look: Look) -> None:
    axes.plot(
        _seconds(told),
        told["limit"],
        color=look.faint,
        linewidth=1,
        linestyle=DASHES,
        label="C",
    )
    for event in told["events"]:
        axes.axvline(event, color=look.rule, linewidth=1, linestyle=":")


def _cumulative(rounds: Sequence[int | None]) -> tuple[list[int], list[float]]:
    settled = sorted(value for value in rounds if value is not None)
    steps = range(max(settled, default=0) + 2)
    parts = [100 * sum(value <= step for value in settled) / len(rounds) for step in steps]
    return [*steps, 12], [*parts, parts[-1]]
