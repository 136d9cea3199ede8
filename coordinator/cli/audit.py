"""``pulsar-quota audit``: who changed what, and taking one change back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from coordinator.cli.output import console, echo, print_json, table
from coordinator.cli.session import session_of
from coordinator.core.answer import written
from coordinator.insight.model.definitions import AuditView

app = typer.Typer(help="The audit trail, and the rollback of one change.", no_args_is_help=True)


@app.command("list")
def list_entries(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="Most rows, newest first.", min=1, max=1000)] = 20,
) -> None:
    """List the newest changes of groups and attachments."""
    session = session_of(context)
    with session.connect() as client:
        entries = client.audit_entries(limit)
    if session.as_json:
        print_json(entries)
        return
    shown = table([">id", "when (UTC)", "who", "from", "what", "change"])
    for entry in entries:
        shown.add_row(
            str(entry.id),
            datetime.fromtimestamp(entry.at_millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            entry.actor,
            entry.address or "-",
            entry.subject,
            change_of(entry),
        )
    console().print(shown if entries else "Nothing was changed yet.")


@app.command("rollback")
def roll_back(
    context: typer.Context,
    entry_id: Annotated[int, typer.Argument(help="Number of the change.", min=0, metavar="ID")],
) -> None:
    """Restore the state before a change; refused if something has changed since."""
    session = session_of(context)
    with session.connect() as client:
        client.roll_back(entry_id)
    if session.as_json:
        print_json({"id": entry_id, "rolledBack": True})
    else:
        echo(f"Change {entry_id} rolled back.")


def change_of(entry: AuditView) -> str:
    """Return a change in words."""
    undone = "" if entry.undoes is None else f" (rolls back {entry.undoes})"
    return _difference(written(entry.before), written(entry.after)) + undone


def _difference(before: object, after: object) -> str:
    match before, after:
        case None, str():
            return f"attached to {after}"
        case str(), None:
            return f"detached from {before}"
        case str(), str():
            return f"moved from {before} to {after}"
        case None, dict():
            return "created"
        case dict(), dict():
            return ", ".join(
                f"{field} {before.get(field)} -> {value}"
                for field, value in after.items()
                if before.get(field) != value
            )
        case _:
            return "deleted"
