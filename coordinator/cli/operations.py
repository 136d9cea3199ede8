"""``pulsar-quota operations``, and waiting until the cluster has settled on a change (``--wait``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import sleep
from typing import Annotated, Final

import typer

from coordinator.cli.client import AdminClient
from coordinator.cli.consoles import progress_console
from coordinator.cli.failures import CommandFailed
from coordinator.cli.fields import DIMENSION_NAMES
from coordinator.cli.output import lasting, percent, span
from coordinator.cli.session import session_of
from coordinator.insight.model.operations import OperationView

Wait = Annotated[
    bool, typer.Option("--wait", help="Return when the cluster has settled on the change.")
]

_UNDER_WAY = ("accepted", "converging")
_POLL_S = 0.2
_NAMED = 3


def operations(
    context: typer.Context,
    group: Annotated[
        str | None, typer.Argument(help="Only this group's.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="Most rows, newest first.", min=1, max=1000)] = 20,
) -> None:
    """List changes: whether the cluster has settled on them, and who gained and lost."""
    session = session_of(context)
    with session.connect() as client:
        found = client.get(list[OperationView], "operations", limit=limit, group=group or None)
    session.show_rows(found, _COLUMNS, "Nothing was changed yet.")


def wait_for(client: AdminClient, operation_id: int | None) -> OperationView | None:
    """Wait until an operation ends, and show its progress on a terminal.

    Returns:
        The operation; None without one: nothing has changed, so there is nothing to wait for.

    Raises:
        CommandFailed: it did not settle; the change stands all the same.
    """
    if operation_id is None:
        return None
    with progress_console().status("accepted") as line:
        while (operation := _read(client, operation_id)).state in _UNDER_WAY:
            line.update(_progress(operation))
            sleep(_POLL_S)
    if operation.state != "settled":
        raise CommandFailed(f"The change was made, but {_why_not(operation)}.")
    return operation


def _read(client: AdminClient, operation_id: int) -> OperationView:
    return client.get(OperationView, "operations", str(operation_id))


def outcome(operation: OperationView) -> str:
    """Return the result of a settled operation, in words."""
    moved = _moved(operation)
    after = span(operation.settle_ns or 0)
    return f"Settled after {after}{_off(operation)}{f'; {moved}' if moved else ''}."


def _progress(operation: OperationView) -> str:
    return f"{operation.state}, {lasting(operation.age_millis)}{_off(operation)}"


def _off(operation: OperationView) -> str:
    off = operation.residual
    return "" if off is None else f", {percent(off)} off"


def _why_not(operation: OperationView) -> str:
    if operation.state == "superseded":
        return f"{operation.group} was changed again before the cluster settled"
    return "the cluster did not settle on it; see `pulsar-quota explain` for what moves"


def _moved(operation: OperationView) -> str:
    """Return the brokers whose limits changed most, in the first dimension that did."""
    for dimension, brokers in operation.moved.items():
        ordered = sorted(brokers.items(), key=lambda item: (-abs(item[1]), item[0]))
        named = ", ".join(f"{broker} {by:+,}" for broker, by in ordered[:_NAMED])
        more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
        return f"{DIMENSION_NAMES[dimension.value]}: {named}{more}"
    return ""


_COLUMNS: Final[Mapping[str, Callable[[OperationView], str]]] = {
    ">id": lambda each: str(each.id),
    ">age": lambda each: lasting(each.age_millis),
    "group": lambda each: each.group,
    "change": lambda each: each.text,
    "who": lambda each: each.actor,
    "state": lambda each: each.state,
    ">settled": lambda each: "-" if each.settle_ns is None else f"after {span(each.settle_ns)}",
    "gained and lost": lambda each: _moved(each) or "-",
}
