"""The global options of every command: the admin API, and the form of the output."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

import httpx
import typer

from coordinator.cli.client import AdminClient


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
        return AdminClient(self.api, self.token, self.trust, self.transport)


def session_of(context: typer.Context) -> GlobalOptions:
    """Return the session that the root command made."""
    session = context.find_object(GlobalOptions)
    assert session is not None
    return session
