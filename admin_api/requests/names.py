"""Accepted names, checked before any other step of a request.

Pulsar stores a group under any name. A name with an encoded slash then becomes a child node of another
group's node in ZooKeeper, and every broker that restarts fails to load its resource groups. Here groups
are named by Pulsar's rule for tenants and namespaces (its `NamedEntity`), which the store has too, and
without names of dots only, which have another meaning in a path.

A group's bad name is a bad request (400); for a tenant's or namespace's, Pulsar says 412. A path with
bytes that are not UTF-8 is a bad request wherever it leads.
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import unquote, unquote_to_bytes

from fastapi import Depends
from starlette.types import ASGIApp, Receive, Scope, Send

from admin_api.errors import ApiError, reason_response
from admin_api.requests.refusals import RefusalCounts
from coordinator.core.topics import NODE_NAME, TopicName, names_scalable

_HOW_TO_NAME = "use 1 to 255 letters, digits and -=:._, and not dots alone"
_KEPT = re.compile(r"%(2[fF]|0[aA]|25)")
_SHOWN_LETTERS = 80


class KeepEncodedSeparators:
    """Leaves an encoded slash, line feed or percent sign encoded, so that it stays visible in its name.

    A server decodes the whole path before it splits it. Then ``a%2Fb`` looks like two names, a line feed
    ends the text that the router's patterns match, and ``a%252Fb`` cannot be told from ``a%2Fb``.

    Bytes that are not UTF-8 all become the same letter there, so that different names would be one: a
    path with such bytes is refused, whatever it leads to.
    """

    def __init__(self, app: ASGIApp, *, refusals: RefusalCounts) -> None:
        self._app = app
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything through, with another path where a separator must stay encoded; or refuse."""
        raw = bytes(scope.get("raw_path") or b"")
        part = _part_not_utf_8(raw)
        if part is not None:
            reason = (
                f"path: {part[:_SHOWN_LETTERS]!r} is not UTF-8: write it as percent-encoded UTF-8"
            )
            client = scope.get("client") or ("", 0)
            self._refusals.add("path", client[0], reason)
            refusal = reason_response(400, reason)
            await refusal(scope, receive, send)
            return
        text = raw.decode("ascii", "replace")
        if _KEPT.search(text):
            scope = {**scope, "path": unquote(_KEPT.sub(r"%25\1", text))}
        await self._app(scope, receive, send)


def _part_not_utf_8(raw: bytes) -> str | None:
    """Return the first part of a path that is not UTF-8, still encoded; None if there is none."""
    for part in raw.split(b"/"):
        try:
            unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            return part.decode("latin-1")
    return None


def decoded(name: str) -> str:
    """Return a name without the encoding that `KeepEncodedSeparators` left."""
    return _KEPT.sub(lambda found: unquote(found[0]), name)


def is_name(name: str) -> bool:
    """Return whether this is a valid name of a group, tenant or namespace."""
    return bool(NODE_NAME.fullmatch(name) and name.strip("."))


def checked(name: str, status: int, subject: str) -> str:
    """Return a valid name; raise ApiError with this status, which names the subject, for any other."""
    if not is_name(name):
        raise ApiError(status, f"{subject} name is not valid: {_HOW_TO_NAME}")
    return name


async def _group_name(name: str) -> str:
    return checked(name, 400, "ResourceGroup")


async def _limited_name(name: str) -> str:
    plain = decoded(name)
    topic = TopicName.parse(plain) if names_scalable(plain) else None
    return checked(name, 400, "ResourceGroup") if topic is None else str(topic)


async def _tenant_name(tenant: str) -> str:
    return checked(tenant, 412, "Tenant")


async def _namespace_name(namespace: str) -> str:
    return checked(namespace, 412, "Namespace")


GroupName = Annotated[str, Depends(_group_name)]
LimitedName = Annotated[str, Depends(_limited_name)]
"""The name of a group or of a scalable topic, which is limited as a group is."""
TenantName = Annotated[str, Depends(_tenant_name)]
NamespaceName = Annotated[str, Depends(_namespace_name)]
