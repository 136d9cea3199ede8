"""Reading a request's body: bounded, and a JSON object or refused.

The body is read by hand instead of by the framework, because Pulsar's tools and people with curl do
not agree on the content type, and because Pulsar's answers to a body that is empty, ``null`` or no
JSON (500, and 400 as plain text) are to become reasons.
"""

from __future__ import annotations

import json
from typing import Annotated, Never

from fastapi import Depends, Request

from admin_api.errors import ApiError

MAX_BODY_BYTES = 64 * 1024
"""A group's definition takes about 300 bytes; the rest is room for fields that are ignored."""


async def refuse_large_body(request: Request) -> None:
    """Refuse a body that announces itself as too large, also where no body is read."""
    length = request.headers.get("content-length", "0")
    if len(length) > len(str(MAX_BODY_BYTES)) or int(length) > MAX_BODY_BYTES:
        raise _too_large()


async def read_object(request: Request) -> dict[str, object]:
    """Read the body as a JSON object.

    Raises:
        ApiError: 413 when it is too large, 400 when it is anything but an object.
    """
    content = bytearray()
    # A body sent in chunks announces no length: what counts is what arrives.
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise _too_large()
    if not content.strip():
        raise ApiError(
            400, 'The body is empty; send a JSON object such as {"publishRateInMsgs":100}'
        )
    try:
        value = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ApiError(400, f"The body is {_kind_of(value)}; send a JSON object")
    return value


JsonObject = Annotated[dict[str, object], Depends(read_object)]
"""The body, read by the time that a handler is called: it may run where no body arrives."""


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON number")


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "an array"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case _:
            return "a number"


def _too_large() -> ApiError:
    return ApiError(413, f"The body is larger than {MAX_BODY_BYTES} bytes")
