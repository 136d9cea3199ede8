"""``pulsar-quota audit``: who changed what, and taking one change back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

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
        entries = client.get(list[AuditView], "audit", limit=limit)
    session.show_rows(entries, _COLUMNS, "Nothing was changed yet.")


@app.command("rollback")
def roll_back(
    context: typer.Context,
    entry_id: Annotated[int, typer.Argument(help="Number of the change.", min=0, metavar="ID")],
) -> None:
    """Restore the state before a change; refused if something has changed since."""
    session = session_of(context)
    with session.connect() as client:
        client.send("POST", f"/quota/v1/audit/{entry_id}/rollback")
    session.tell({"id": entry_id, "rolledBack": True}, f"Change {entry_id} rolled back.")


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


_COLUMNS: Final[Mapping[str, Callable[[AuditView], str]]] = {
    ">id": lambda entry: str(entry.id),
    "when (UTC)": lambda entry: f"{datetime.fromtimestamp(entry.at_millis / 1000, UTC):%F %T}",
    "who": lambda entry: entry.actor,
    "from": lambda entry: entry.address or "-",
    "what": lambda entry: entry.subject,
    "change": change_of,
}
