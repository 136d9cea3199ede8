"""``pulsar-quota groups tree``: which group has what of its parent's limit, lends and borrows."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.explain import FIRST_DIMENSION, DimensionName, dimension_of
from coordinator.cli.output import console, echo, print_json, rate, table
from coordinator.cli.session import session_of
from coordinator.insight.model.trees import TreeGroupView


def tree(
    context: typer.Context,
    group: Annotated[
        str | None,
        typer.Argument(help="Only the tree of this group.", show_default=False, metavar="NAME"),
    ] = None,
    dimension: DimensionName = FIRST_DIMENSION,
) -> None:
    """Show how groups share the limits of their parents: used, guaranteed and borrowed rates."""
    of = dimension_of(dimension)
    session = session_of(context)
    with session.connect() as client:
        trees = client.trees(of) if group is None else [client.tree(group, of)]
    if session.as_json:
        print_json(trees)
        return
    if not trees:
        echo("No group has a parent: there are no trees.")
        return
    columns = ("limit", "guaranteed", "weight", "wants", "has", "uses", "borrows")
    shown = table([f"group ({of.value})", *(f">{name}" for name in columns)])
    for found in trees:
        for row in found.groups:
            shown.add_row(*_cells(row))
    console().print(shown)


def _cells(row: TreeGroupView) -> tuple[str, ...]:
    return (
        "  " * row.level + row.group,
        rate(row.limit),
        f"{row.guarantee:,}" if row.guarantee else "-",
        str(row.weight) if row.parent else "-",
        "more" if row.wants is None else f"{row.wants:,}",
        rate(row.part),
        f"{row.admitted:,}",
        f"{row.borrowed:,}" if row.borrowed else "-",
    )
