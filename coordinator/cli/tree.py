"""``pulsar-quota groups tree``: which group has what of its parent's limit, lends and borrows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from coordinator.cli.explain import FIRST_DIMENSION, DimensionName, dimension_of
from coordinator.cli.output import print_json, rate
from coordinator.cli.session import session_of
from coordinator.insight.model.trees import TreeGroupView, TreeView


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
        if group is None:
            trees = client.pages(TreeView, "trees", dimension=of.value)
        else:
            trees = [client.get(TreeView, "trees", group, dimension=of.value)]
    if session.as_json:
        print_json(trees)
        return
    rows = [row for found in trees for row in found.groups]
    first = {f"group ({of.value})": lambda row: "  " * row.level + row.group}
    session.show_rows(rows, {**first, **_COLUMNS}, "No group has a parent: there are no trees.")


_COLUMNS: Final[Mapping[str, Callable[[TreeGroupView], str]]] = {
    ">limit": lambda row: rate(row.limit),
    ">guaranteed": lambda row: f"{row.guarantee:,}" if row.guarantee else "-",
    ">weight": lambda row: str(row.weight) if row.parent else "-",
    ">wants": lambda row: "more" if row.wants is None else f"{row.wants:,}",
    ">has": lambda row: rate(row.part),
    ">uses": lambda row: f"{row.admitted:,}",
    ">borrows": lambda row: f"{row.borrowed:,}" if row.borrowed else "-",
}
