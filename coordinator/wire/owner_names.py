"""The names of owners' nodes in the store, which may have letters of a tenant's name alone.

The attachments of roles, subscriptions and remote clusters stand among those of namespaces, below tenants
that no cluster has: a sidecar that does not know them reads them there, finds a schema that is newer than
its own, and says so of each by its path, where it would overlook another place.

A letter that is not allowed is written as ``=`` and two hexadecimal digits for each of its bytes (UTF-8),
and so are ``=`` itself and the first of dots alone. The empty name is a lone ``=``. Each name has one
spelling, and any other is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from coordinator.core.owners import OWNER_MAKERS, OwnerKind, TrafficOwner
from coordinator.wire.documents import DocumentError

_PLAIN: Final = re.compile(rb"[A-Za-z0-9_.:-]")
_EMPTY: Final = "="
_ESCAPED: Final = re.compile(rb"=([0-9A-F]{2})")
_SPELT: Final = re.compile(r"(?:[A-Za-z0-9_.:-]|=[0-9A-F]{2})+")

_PLACES: Final[Mapping[OwnerKind, str]] = {kind: f":{kind.value}:" for kind in OWNER_MAKERS}
_KINDS: Final = {place: kind for kind, place in _PLACES.items()}


def place_of(kind: OwnerKind) -> str:
    """Return the name that stands in the place of a tenant's."""
    return _PLACES[kind]


def kind_at(place: str) -> OwnerKind:
    """Return the kind of owners that have this place; below a tenant's name stand namespaces."""
    return _KINDS.get(place, OwnerKind.NAMESPACE)


def owner_node(owner: TrafficOwner) -> str:
    """Return the name of an owner's node."""
    plain = (bytes([each]) for each in owner.name.encode())
    spelt = b"".join(e if _PLAIN.fullmatch(e) else b"=%02X" % e[0] for e in plain).decode()
    if spelt in {".", ".."}:
        spelt = "=2E" + spelt[1:]
    return spelt or _EMPTY


def owner_of(kind: OwnerKind, node: str) -> TrafficOwner:
    """Read the name of an owner's node.

    Raises:
        DocumentError: it is not the one spelling of an owner of this kind.
    """
    if node == _EMPTY:
        spelt = ""
    elif _SPELT.fullmatch(node):
        spelt = node
    else:
        raise DocumentError(f"{node!r:.80} is no name of {kind.value}")
    try:
        name = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), spelt.encode()).decode()
        owner = OWNER_MAKERS[kind](name)
        if owner_node(owner) != node:
            raise DocumentError(f"{node!r:.80} is not how {name!r:.80} is written")
    except ValueError as error:  # of which UnicodeDecodeError and DocumentError are
        raise DocumentError(str(error)) from error
    return owner


def owner_in_subject(subject: str) -> TrafficOwner | None:
    """Return the owner that a subject of the audit trail names; None if Pulsar knows its kind.

    Raises:
        DocumentError: no owner of this kind can have this name.
    """
    word, _, name = subject.partition("/")
    kind = next((each for each in OWNER_MAKERS if each.value == word), None)
    if kind is None:
        return None
    try:
        return OWNER_MAKERS[kind](name)
    except ValueError as error:
        raise DocumentError(str(error)) from error
