"""Lookups through the relay name gates, never a broker's own port, in any spelling of the request.

A broker answers a lookup over HTTP with the address of the listener that the request names, by the
query's ``listenerName`` or the header ``X-Pulsar-ListenerName``; if it names none, or ``internal``, the
answer is the port that has no gate before it. So listeners that the caller names are dropped, in every
spelling that could be read as one, and both name the gate's listener instead.

A broker that does not own the topic redirects to the web address of one that may. A caller who follows
the redirect asks that broker directly; so the location names the gate's listener, too. Old releases leave
the listener out, so it is written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote_plus

from coordinator.ports import RelayedRequest

Headers = Sequence[tuple[bytes, bytes]]

_PATH: Final = b"/lookup/"
_HEADER: Final = b"x-pulsar-listenername"
_PARAMETER: Final = "listenername"


def is_lookup(asked: RelayedRequest) -> bool:
    """Return whether a request is one of the lookup REST."""
    return asked.target.startswith(_PATH)


def request_for(listener: str, asked: RelayedRequest) -> RelayedRequest:
    """Return a lookup for this listener and no other."""
    headers = [(name, value) for name, value in asked.headers if name.strip().lower() != _HEADER]
    headers.append((b"X-Pulsar-ListenerName", listener.encode()))
    return replace(asked, target=_target_for(listener, asked.target), headers=headers)


def answered_for(listener: str, headers: Headers) -> Headers:
    """Return the headers of an answer; a location at another broker gets this listener, too."""
    return [
        (name, _target_for(listener, value) if name.lower() == b"location" else value)
        for name, value in headers
    ]


def _target_for(listener: str, target: bytes) -> bytes:
    address, _, query = target.partition(b"#")[0].partition(b"?")
    kept = [part for part in query.split(b"&") if part and not _names_listener(part)]
    return address + b"?" + b"&".join([*kept, f"listenerName={listener}".encode()])


def _names_listener(part: bytes) -> bool:
    # Pulsar knows one spelling; the others are dropped as well, since a later release may read them.
    name = unquote_plus(part.partition(b"=")[0].decode("latin-1"))
    return name.strip().strip("\0").lower() == _PARAMETER
