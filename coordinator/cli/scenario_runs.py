"""The work of ``pulsar-quota simulate``: in a module of its own, as the simulator takes time to load.

Figures fill two tables: how well the limit was kept; how it was shared, and at what price.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from itertools import product

from rich.progress import track

from coordinator.cli.consoles import console, progress_console, table
from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.output import print_json
from coordinator.core.allocation.laws import ALL_LAWS
from coordinator.core.model import Dimension
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.invariants import PromiseBroken
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Parameters
from coordinator.simulation.trials import Summary, Trial, run_all

_ALL = "all"
_MOST_BROKERS = 1024
_MOST_GROUPS = 10_000
_MOST_SEEDS = 10_000
_MOST_JOBS = 256
_MOST_DELAY_ROUNDS = 60

_Column = tuple[str, Callable[[Summary], str]]

_WHAT: Sequence[_Column] = (
    ("scenario", lambda row: row.scenario),
    ("what", lambda row: SCENARIOS[row.scenario].title),
    ("law", lambda row: row.law),
    ("policy", lambda row: row.policy),
)
_LIMIT: Sequence[_Column] = (
    (">brokers", lambda row: str(row.brokers)),
    (">loss", lambda row: f"{row.loss:.0%}"),
    (">delay", lambda row: f"{row.delay:g}"),
    (">settle median", lambda row: settled_rounds(row, "median")),
    (">max", lambda row: settled_rounds(row, "max")),
    (">peak over", lambda row: f"{row.peak_overshoot:.2%}"),
    (">of 10 s", lambda row: f"{row.peak_overshoot_10s:.2%}"),
    (">time > 1.01", lambda row: f"{row.time_over_1_01:.2%}"),
    (">> 1.05", lambda row: f"{row.time_over_1_05:.2%}"),
    (">mean over", lambda row: f"{row.mean_when_over:.3f}"),
    (">volume", lambda row: f"{row.overshoot_volume:.3f} s"),
    (">sum of limits", lambda row: f"{row.max_sum_limits:.4f}"),
)
_SHARES: Sequence[_Column] = (
    (">utilisation", lambda row: f"{row.utilisation:.4f}"),
    (">steady error", lambda row: f"{row.aggregate_error:.2%}"),
    (">regret", lambda row: f"{row.regret:.4f}"),
    (">Jain", lambda row: f"{row.jain:.4f}"),
    (">min share", lambda row: f"{row.min_share:.4f}"),
    (">starved", lambda row: f"{row.starvation_seconds} s"),
    (">reclaim", lambda row: _seconds(row.reclaim_seconds["max"])),
    (">swing", lambda row: f"{row.oscillation:.2%}"),
    (">changes/min", lambda row: f"{row.changes_per_minute:g}"),
    (">B/s out", lambda row: f"{row.control_bytes_out:,.0f}"),
    (">B/s in", lambda row: f"{row.control_bytes_in:,.0f}"),
)


def simulate(
    scenario: str,
    chosen: Parameters,
    *,
    brokers: int | None,
    dimension: str,
    seeds: int,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Run scenarios, and print how well the limit was kept; the help of the command explains the rest."""
    chosen = replace(chosen, dimension=_dimension(dimension))
    scenarios = _known("--scenario", scenario, SCENARIOS)
    laws = _known("--law", chosen.law, ALL_LAWS)
    policies = _known("--policy", chosen.policy, POLICIES)
    _within("--brokers", brokers, max(SCENARIOS[n].least_brokers for n in scenarios), _MOST_BROKERS)
    _within("--loss", chosen.loss, 0, 1)
    _within("--delay", chosen.delay_rounds, 0, _MOST_DELAY_ROUNDS)
    _within("--groups", chosen.groups, 1, _MOST_GROUPS)
    _within("--native", chosen.native, 0, brokers or min(SCENARIOS[n].brokers for n in scenarios))
    _within("--seeds", seeds, 1, _MOST_SEEDS)
    _within("--jobs", jobs, 1, _MOST_JOBS)
    trials = [
        Trial(
            name,
            replace(chosen, brokers=brokers or SCENARIOS[name].brokers, law=law, policy=policy),
            seeds,
        )
        for name, law, policy in product(scenarios, laws, policies)
    ]
    try:
        summaries = _run(trials, jobs or os.cpu_count() or 1)
    except PromiseBroken as broken:
        raise CommandFailed(f"A promise was broken: {broken}") from broken
    if as_json:
        print_json([asdict(summary) for summary in summaries])
        return
    _show(summaries)


def _known(option: str, value: str, valid: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are meant: one, or all of them."""
    names = tuple(valid)
    if value == _ALL:
        return names
    if value not in names:
        raise WrongUse(f"{option} {value}: use one of {', '.join([*names, _ALL])}.")
    return (value,)


def _dimension(value: str) -> Dimension:
    try:
        return Dimension(value)
    except ValueError:
        known = ", ".join(dimension.value for dimension in Dimension)
        raise WrongUse(f"--dimension {value}: use one of {known}.") from None


def _within(option: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:  # nan is in no range
        raise WrongUse(f"{option} {value:g}: use a number from {least:g} to {most:,}.")


def _run(trials: Sequence[Trial], processes: int) -> list[Summary]:
    """Run everything; show the progress on a terminal."""
    terminal = progress_console()
    return list(
        track(
            run_all(trials, processes),
            total=len(trials),
            description="simulating",
            console=terminal,
            transient=True,
            disable=not terminal.is_terminal,
        )
    )


def _show(summaries: Sequence[Summary]) -> None:
    for title, columns in (("The limit", _LIMIT), ("The shares, and the price", _SHARES)):
        shown = table([name for name, _ in (*_WHAT, *columns)])
        for row in summaries:
            shown.add_row(*(read(row) for _, read in (*_WHAT, *columns)))
        console().print(title)
        console().print(shown)


def settled_rounds(row: Summary, which: str) -> str:
    """Return the rounds to settle, the median or the max of all runs: a number, ``never``, or - ."""
    if not SCENARIOS[row.scenario].settles:
        return "-"
    rounds = row.settle_rounds[which]
    return "never" if rounds is None else f"{rounds:g}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
