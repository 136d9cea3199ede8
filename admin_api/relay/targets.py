r"""Paths that may go on to the broker: those that read the same here, in Jetty and in Jersey.

This module judges a path by its text, the broker by the result of its parsers. Jetty cuts ``;parameters``
off every part, so that ``/resourcegroup;x`` is ``/resourcegroup`` to the broker and no path of ours here
(tried on 4.2.4); it resolves dots, also encoded ones, and releases treat ``//``, ``%2F`` and ``\``
differently. An ambiguous path leads out of the admin REST, or past a path that is answered here. So no
path is normalized: a path in any spelling but the plain one is refused, with the reason.

A plain path has parts of the letters that RFC 3986 allows for them, except ``;``; no empty part, apart
from one at the end; complete escapes, in UTF-8, that stand for no control character, no backslash, no
``.`` and no second escape. An encoded slash may stand in names alone, which come after four parts or more
(``/admin/v2/persistent/T/N/a%2Fb``), and never among namespaces. Pulsar's tools write such paths: they
encode names as forms do (Java's URLEncoder), which leaves ``.``, ``-``, ``_``, ``*`` and ``+`` and
escapes the rest, so a topic may have any name but for the above.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from admin_api.errors import ApiError

_PLAIN = re.compile(rb"/[-A-Za-z0-9._~!$&'()*+,=:@%/]*")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_TWICE = re.compile(r"%(?:[01][0-9A-F]|2[EF]|3B|5C|7F|[89][0-9A-F]|25)", re.IGNORECASE)
_QUERY = re.compile(rb"[\x21-\x7e]*")
_NAMES_BEGIN: Final = 6
"""/admin/v2/persistent/T/N/ is five parts and an empty one before the first slash."""


def check_target(path: bytes, query: bytes) -> None:
    """Accept a path and query that the broker reads in the same way.

    Args:
        path: the path as it was sent, still encoded.
        query: the same, without the question mark.

    Raises:
        ApiError: 400, with the fault.
    """
    if b";" in path:
        raise _refused("holds ; outside of an escape, and what follows would be lost; write %3B")
    if not _PLAIN.fullmatch(path):
        raise _refused("holds letters that must be escaped, or does not begin with /")
    if _BROKEN_ESCAPE.search(path):
        raise _refused("holds % without two hexadecimal digits after it; write %25")
    parts = path.split(b"/")[1:]
    if b"" in parts[:-1]:
        raise _refused("holds // ; write one slash, and no empty name")
    for index, part in enumerate(parts, start=1):
        _check_part(part, may_hold_slash=index >= _NAMES_BEGIN and parts[2] != b"namespaces")
    if not _QUERY.fullmatch(query):
        raise ApiError(400, "The query holds letters that must be escaped")


def _check_part(part: bytes, *, may_hold_slash: bool) -> None:
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError as error:
        raise _refused("holds escapes that are not UTF-8") from error
    if any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in text):
        raise _refused("holds an escaped control character")
    if "\\" in text:
        raise _refused("holds an escaped backslash")
    if b"%2e" in part.lower():
        raise _refused("holds an escaped dot; write it as it is")
    if "/" in text and not may_hold_slash:
        raise _refused("holds an escaped slash where no topic or subscription is named")
    if {".", ".."} & set(text.split("/")):
        raise _refused("holds . or .. as a part; write it without")
    if _TWICE.search(text):
        raise _refused("holds what is escaped twice, and might be read as a slash or a dot")


def _refused(why: str) -> ApiError:
    return ApiError(400, f"The path {why}")
