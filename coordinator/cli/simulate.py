"""``pulsar-quota simulate``: the effect of laws and policies in scenarios, without a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.session import session_of
from coordinator.core.model import Dimension

_ALL = "all"


def simulate(  # noqa: PLR0913, PLR0917  # one parameter per option
    context: typer.Context,
    scenario: Annotated[str, typer.Option(help="S1 to S25, or all.", metavar="NAME")] = _ALL,
    law: Annotated[str, typer.Option(help="Allocation law, or all.", metavar="LAW")] = "max-min",
    policy: Annotated[
        str, typer.Option(help="Overshoot policy, or all.", metavar="POLICY")
    ] = "balanced",
    brokers: Annotated[
        int | None, typer.Option(help="Number of brokers; the scenario's own by default.")
    ] = None,
    loss: Annotated[
        float | None,
        typer.Option(help="Share of reports lost, 0 to 1; the scenario's own by default."),
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(help="Rounds by which reports are late; the scenario's own by default."),
    ] = None,
    dimension: Annotated[
        str, typer.Option(help="Rate that the groups limit, as Pulsar calls it.", metavar="RATE")
    ] = Dimension.PUBLISH_MESSAGES.value,
    groups: Annotated[int | None, typer.Option(help="Number of groups; S20 only.")] = None,
    native: Annotated[
        int | None,
        typer.Option(help="Number of brokers with native enforcement and no gate; S23 only."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Number of runs, each with other random numbers.")
    ] = 10,
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time; one per processor by default.")
    ] = None,
) -> None:
    """Run scenarios in a simulated cluster of real cores, and say how well the limit was kept."""
    # The simulator takes longer to load than most commands run.
    from coordinator.cli import scenario_runs  # noqa: PLC0415
    from coordinator.simulation.stage import Parameters  # noqa: PLC0415

    scenario_runs.simulate(
        scenario,
        Parameters(
            law=law, policy=policy, loss=loss, delay_rounds=delay, groups=groups, native=native
        ),
        brokers=brokers,
        dimension=dimension,
        seeds=seeds,
        jobs=jobs,
        as_json=session_of(context).as_json,
    )
