"""``pulsar-quota shadow``: a group's law beside another one, on the traffic of this moment."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.explain import FIRST_DIMENSION, DimensionName, dimension_of
from coordinator.cli.output import console, print_json, rate, table
from coordinator.cli.session import session_of


def shadow(
    context: typer.Context,
    group: Annotated[str, typer.Argument(help="Name of the group.", show_default=False)],
    law: Annotated[
        str | None,
        typer.Option(help="The other law; the sidecar's shadow_law by default.", metavar="LAW"),
    ] = None,
    dimension: DimensionName = FIRST_DIMENSION,
) -> None:
    """Show which brokers would gain and lose under another law; nothing is changed."""
    of = dimension_of(dimension)
    session = session_of(context)
    with session.connect() as client:
        found = client.shadow(group, of, law)
    if session.as_json:
        print_json(found)
        return
    out = console()
    out.print(found.sentence)
    shown = table(["broker", f">{found.law}", f">{found.candidate}", ">difference"])
    for each in found.brokers:
        difference = each.then - each.now
        shown.add_row(
            each.broker,
            rate(each.now),
            rate(each.then),
            f"{difference:+,}" if difference else "-",
        )
    out.print(shown)
