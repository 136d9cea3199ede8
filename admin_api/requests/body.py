"""Reading a request's body: bounded, and a JSON object or refused.

This module reads the body without the framework, because Pulsar's tools and users of curl do not agree on
the content type, and because Pulsar's answers to a body that is empty, ``null`` or no JSON (500, and 400
as plain text) must become reasons.
"""

from __future__ import annotations

import json
from typing import Annotated, Never

from fastapi import Depends, Request

from admin_api.errors import ApiError

MAX_BODY_BYTES = 64 * 1024
"""A group's definition takes about 300 bytes; the rest is room for fields of later releases."""

_KINDS = {type(None): "null", list: "an array", bool: "a boolean", str: "a string"}


async def refuse_large_body(request: Request) -> None:
    """Refuse a body that announces itself as too large, also where no body is read."""
    length = request.headers.get("content-length", "0")
    if len(length) > len(str(MAX_BODY_BYTES)) or int(length) > MAX_BODY_BYTES:
        raise _too_large(MAX_BODY_BYTES)


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Read the body; raises ApiError 413 when it is larger."""
    content = bytearray()
    # A body sent in chunks announces no length: the bytes that arrive count.
    async for piece in request.stream():
        content += piece
        if len(content) > bytes_max:
            raise _too_large(bytes_max)
    return bytes(content)


async def read_object(request: Request) -> dict[str, object]:
    """Read the body as a JSON object.

    Raises:
        ApiError: 413 when it is too large, 400 when it is not an object.
    """
    content = await read_body(request, MAX_BODY_BYTES)
    if not content.strip():
        raise ApiError(
            400, 'The body is empty; send a JSON object such as {"publishRateInMsgs":100}'
        )
    try:
        value = json.loads(
            content, parse_constant=_refuse_constant, object_pairs_hook=without_doubles
        )
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ApiError(
            400, f"The body is {_KINDS.get(type(value), 'a number')}; send a JSON object"
        )
    return value


JsonObject = Annotated[dict[str, object], Depends(read_object)]
"""The body, read before a handler is called: the handler may run on a loop where no body arrives."""


def without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the object of these fields, for `json.loads`; raises ValueError when one stands twice."""
    # Two parsers each take another one of the two, and a limit must not depend on the parser.
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name:.80} stands twice in one object")
        found[name] = value
    return found


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON number")


def _too_large(bytes_max: int) -> ApiError:
    return ApiError(413, f"The body is larger than {bytes_max} bytes")
