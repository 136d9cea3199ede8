"""``pulsar-quota simulate``: what a law and a policy do in a scenario, with no cluster at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.output import console, print_json, table
from coordinator.cli.session import session_of
from coordinator.core.laws import LAWS
from coordinator.core.policies import POLICIES
from coordinator.simulation.experiment import Summary, perform, run_many
from coordinator.simulation.invariants import PromiseBroken
from coordinator.simulation.plot import Picture, page
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Parameters

_ALL = "all"
_MOST_BROKERS = 1024
_MOST_SEEDS = 10_000
_MOST_DELAY_ROUNDS = 60

_COLUMNS = (
    "scenario", "what", "law", "policy", ">brokers", ">loss", ">delay", ">settle median", ">max",
    ">peak over", ">sum of limits", ">utilisation", ">Jain", ">min share", ">time > 1.05",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Request:
    """What to run, checked."""

    scenarios: tuple[str, ...]
    parameters: Parameters
    brokers: int | None
    seeds: int
    plot: Path | None

    def parameters_of(self, scenario: str) -> Parameters:
        """The parameters of one scenario, which has its own number of brokers by default."""
        chosen = self.parameters
        brokers = SCENARIOS[scenario].brokers if self.brokers is None else self.brokers
        return Parameters(brokers, chosen.law, chosen.policy, chosen.loss, chosen.delay_rounds)


def simulate(  # noqa: PLR0913, PLR0917  # one parameter per option
    context: typer.Context,
    scenario: Annotated[str, typer.Option(help="S1 to S24, or all.", metavar="NAME")] = _ALL,
    law: Annotated[str, typer.Option(help="Allocation law.", metavar="LAW")] = "max-min",
    policy: Annotated[str, typer.Option(help="Overshoot policy.", metavar="POLICY")] = "balanced",
    brokers: Annotated[
        int | None, typer.Option(help="Number of brokers; the scenario's own by default.")
    ] = None,
    loss: Annotated[
        float | None,
        typer.Option(help="Share of reports lost, 0 to 1; the scenario's own by default."),
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(help="How many rounds late reports are; the scenario's own by default."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How often, each time with other dice.")] = 10,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the runs of the first seed into this HTML file.", metavar="FILE"),
    ] = None,
) -> None:
    """Run scenarios in a simulated cluster of real cores, and say how well the limit was kept."""
    request = _checked(
        scenario, Parameters(law=law, policy=policy, loss=loss, delay_rounds=delay),
        brokers, seeds, plot,
    )  # fmt: skip
    try:
        summaries = [
            run_many(name, request.parameters_of(name), request.seeds) for name in request.scenarios
        ]
        if request.plot is not None:
            _draw(request, request.plot)
    except PromiseBroken as broken:
        raise CommandFailed(f"A promise was broken: {broken}") from broken
    if session_of(context).as_json:
        print_json([asdict(summary) for summary in summaries])
        return
    _show(summaries)


def _checked(
    scenario: str, parameters: Parameters, brokers: int | None, seeds: int, plot: Path | None
) -> _Request:
    _known("--scenario", scenario, [*SCENARIOS, _ALL])
    _known("--law", parameters.law, list(LAWS))
    _known("--policy", parameters.policy, list(POLICIES))
    names = tuple(SCENARIOS) if scenario == _ALL else (scenario,)
    least = max(SCENARIOS[name].least_brokers for name in names)
    _within("--brokers", brokers, least, _MOST_BROKERS)
    _within("--loss", parameters.loss, 0, 1)
    _within("--delay", parameters.delay_rounds, 0, _MOST_DELAY_ROUNDS)
    _within("--seeds", seeds, 1, _MOST_SEEDS)
    if plot is not None:
        _check_plot(plot)
    return _Request(names, parameters, brokers, seeds, plot)


def _known(option: str, value: str, valid: Sequence[str]) -> None:
    if value not in valid:
        raise WrongUse(f"{option} {value}: use one of {', '.join(valid)}.")


def _within(option: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:  # nan is in no range
        raise WrongUse(f"{option} {value:g}: use a number from {least:g} to {most:,}.")


def _check_plot(plot: Path) -> None:
    if plot.suffix.lower() not in (".html", ".htm"):
        raise WrongUse(f"--plot {plot}: drawings are HTML pages; name a file that ends in .html.")
    if not plot.absolute().parent.is_dir():
        raise WrongUse(
            f"--plot {plot}: {plot.absolute().parent} is not a directory; make it first."
        )


def _draw(request: _Request, plot: Path) -> None:
    pictures = []
    for name in request.scenarios:
        stage, recording = perform(name, request.parameters_of(name))
        group, record = next(iter(recording.groups.items()))
        title = f"{name}: {SCENARIOS[name].title} ({stage.parameters.policy}, group {group})"
        pictures.append(Picture(title, SCENARIOS[name].description, record, stage.events))
    try:
        plot.write_text(page(pictures), encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{plot} cannot be written: {error.strerror}.") from error


def _show(summaries: Sequence[Summary]) -> None:
    shown = table(_COLUMNS)
    for row in summaries:
        shown.add_row(
            row.scenario,
            SCENARIOS[row.scenario].title,
            row.law,
            row.policy,
            str(row.brokers),
            f"{row.loss:.0%}",
            f"{row.delay:g}",
            *_settled(row),
            f"{row.peak_overshoot:.2%}",
            f"{row.max_sum_limits:.4f}",
            f"{row.utilisation:.4f}",
            f"{row.jain:.4f}",
            f"{row.min_share:.4f}",
            f"{row.time_over_1_05:.2%}",
        )
    console().print(shown)


def _settled(row: Summary) -> tuple[str, str]:
    if not SCENARIOS[row.scenario].settles:
        return "-", "-"
    return _rounds(row.settle_rounds["median"]), _rounds(row.settle_rounds["max"])


def _rounds(value: float | None) -> str:
    return "never" if value is None else f"{value:g}"
