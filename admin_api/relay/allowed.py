r"""The requests that go on to the broker: those of one list, in plain spelling.

The list has what clients and pulsar-admin need around lookups, tenants, namespaces and groups. It has
nothing that stores or delivers messages: what passes here passes no gate, and no limit counts it (a
reader of ``.../subscription/S/position/N`` took six times its limit). Whether a listed request is allowed
is the broker's to say, by the credentials that come with it.

*Plain spelling.* This module judges a path by its text, the broker by the result of its parsers. Jetty
cuts ``;parameters`` off every part, so that ``/resourcegroup;x`` is ``/resourcegroup`` to the broker and
no path of ours here (tried on 4.2.4); it resolves dots, also encoded ones, and releases treat ``//``,
``%2F`` and ``\`` differently. An ambiguous path leads past a path that is answered here, or out of the
list. So no path is normalized: it passes as it is or not at all. Its parts hold the letters that RFC 3986
allows for them, except ``;``, and complete escapes that stand for no control character, no backslash, no
dot and no second escape; an escaped slash stands in a topic's name alone. What is not UTF-8 never comes
here (admin_api.requests.names). Pulsar's tools write such paths: they encode names as forms do (Java's
URLEncoder).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ALL: Final = ("GET", "PUT", "POST", "DELETE")
_READ: Final = ("GET",)

_LETTER: Final = r"[-A-Za-z0-9._~!$&'()*+,=:@]"
_ESCAPE: Final = "%[0-9A-Fa-f]{2}"
_PART: Final = f"(?:{_LETTER}|(?!%2[Ff]){_ESCAPE})+"
_PATTERNS: Final = {
    "{domain}": "(?:persistent|non-persistent)",
    "{topic}": f"(?:{_LETTER}|{_ESCAPE})+",
    "{rest}": f"{_PART}(?:/{_PART})*",
}
_AMBIGUOUS: Final = re.compile(
    rb"(?:/|%2f)\.{1,2}(?=/|%2f|$)"  # climbs
    rb"|%(?:2e|5c|[01][0-9a-f]|7f|c2%[89])"  # a dot, a backslash, a control character
    rb"|%25[0-9a-f]{2}",  # escaped twice
    re.IGNORECASE,
)
_QUERY: Final = re.compile(rb"[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class Relayable:
    """Requests of one kind.

    Args:
        methods: the verbs.
        path: a template; ``{rest}`` stands for one part or more, any other name for one.
        why: who needs it.
    """

    methods: tuple[str, ...]
    path: str
    why: str

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """The paths, still encoded."""
        text = re.sub(r"\{\w+\}", lambda found: _PATTERNS.get(found[0], _PART), self.path)
        return re.compile(text.encode())


_TOPIC: Final = "{domain}/{tenant}/{namespace}/{topic}"
_SCHEMA: Final = "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema"

RELAYABLE: Final = (
    Relayable(
        _READ, f"/lookup/v2/topic/{_TOPIC}", "clients look a topic up; the answer names a gate"
    ),
    Relayable(_READ, f"/lookup/v2/topic/{_TOPIC}/bundle", "`pulsar-admin topics bundle-range`"),
    Relayable(
        _READ, f"/admin/v2/{_TOPIC}/partitions", "clients whose URL is HTTP count partitions"
    ),
    Relayable(_READ, _SCHEMA, "clients whose URL is HTTP consume with the topic's own schema"),
    Relayable(_READ, f"{_SCHEMA}/{{version}}", "the same, of an older message"),
    Relayable(_READ, "/admin/v2/clusters", "`pulsar-admin tenants create` allows all clusters"),
    Relayable(_READ, "/admin/v2/clusters/{cluster}", "`pulsar-admin clusters get`"),
    Relayable(_READ, "/admin/v2/tenants", "`pulsar-admin tenants list`"),
    Relayable(_ALL, "/admin/v2/tenants/{tenant}", "`pulsar-admin tenants`"),
    Relayable(
        _ALL,
        "/admin/v2/namespaces/{rest}",
        "`pulsar-admin namespaces`, and clients whose URL is HTTP find topics by a pattern",
    ),
)

_PASSES: Final = tuple((row.methods, row.pattern) for row in RELAYABLE)


def passes(method: str, path: bytes, query: bytes) -> bool:
    """Return whether a request goes on to the broker.

    Args:
        method: the verb.
        path: the path as it was sent, still encoded.
        query: the same, without the question mark.
    """
    if _AMBIGUOUS.search(path) or not _QUERY.fullmatch(query):
        return False
    return any(method in methods and pattern.fullmatch(path) for methods, pattern in _PASSES)
