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

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import unquote_plus

Headers = Sequence[tuple[bytes, bytes]]

_PATH: Final = "/lookup/"
_HEADER: Final = b"x-pulsar-listenername"
_PARAMETER: Final = "listenername"


def is_lookup(path: str) -> bool:
    """Return whether a path, decoded, is one of the lookup REST."""
    return path.lower().startswith(_PATH)


def query_for(listener: str, query: bytes) -> bytes:
    """Return a lookup's query with this listener and no other."""
    kept = [part for part in query.split(b"&") if part and not _names_listener(part)]
    return b"&".join([*kept, f"listenerName={listener}".encode()])


def headers_for(listener: str, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return a lookup's headers with this listener and no other."""
    kept = [(name, value) for name, value in headers if name.strip().lower() != _HEADER]
    return [*kept, (b"X-Pulsar-ListenerName", listener.encode())]


def answered_for(listener: str, headers: Headers) -> Headers:
    """Return the headers of an answer; a location at another broker gets this listener, too."""
    return [
        (name, _location_for(listener, value) if name.lower() == b"location" else value)
        for name, value in headers
    ]


def _location_for(listener: str, location: bytes) -> bytes:
    address, _, query = location.partition(b"#")[0].partition(b"?")
    return address + b"?" + query_for(listener, query)


def _names_listener(part: bytes) -> bool:
    # Pulsar knows one spelling; the others are dropped as well, since a later release may read them.
    name = unquote_plus(part.partition(b"=")[0].decode("latin-1"))
    return name.strip().strip("\0").lower() == _PARAMETER
