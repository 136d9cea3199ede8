"""The global options of every command: the admin API, and the form of the output.

The libraries of both are loaded by the commands that ask or draw: a sidecar is a command, too.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import typer

from coordinator.cli.output import echo, print_json

if TYPE_CHECKING:
    import httpx

    from coordinator.cli.client import AdminClient

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The global options of one call.

    Args:
        api: URL of the admin API.
        token: its token, if any.
        as_json: print JSON instead of text.
        trust: TLS settings, as the client takes them.
        transport: carries the requests; None is the network.
        is_named: whether the caller has named the API.
    """

    api: str
    token: str | None
    as_json: bool
    trust: ssl.SSLContext | None = None
    transport: httpx.BaseTransport | None = None
    is_named: bool = False

    def connect(self) -> AdminClient:
        """Return a client of the admin API, to be closed by the caller."""
        from coordinator.cli.client import AdminClient  # noqa: PLC0415 - loads httpx

        return AdminClient(self.api, self.token, self.trust, self.transport)

    def tell(self, outcome: object, text: str) -> None:
        """Print the outcome of a command: itself as JSON, or the text."""
        if self.as_json:
            print_json(outcome)
        else:
            echo(text)

    def show_rows(
        self, rows: Sequence[T], columns: Mapping[str, Callable[[T], str]], nothing: str
    ) -> None:
        """Print rows.

        Args:
            rows: answers.
            columns: the title of each column, as `output.table` takes it, and its text in a row.
            nothing: the text in place of an empty table.
        """
        if self.as_json:
            print_json(rows)
            return
        from coordinator.cli.consoles import console, table  # noqa: PLC0415 - loads rich

        shown = table([*columns])
        for row in rows:
            shown.add_row(*(text(row) for text in columns.values()))
        console().print(shown if rows else nothing)


def session_of(context: typer.Context) -> GlobalOptions:
    """Return the session that the root command made."""
    session = context.find_object(GlobalOptions)
    assert session is not None
    return session
