"""The dashboard's files at ``/`` and the API's description at ``/docs``, with the libraries as installed.

The files hold nothing secret, so they need no token; the data that they show does, and the page asks for
one. They are read once at the start. The policy lets the page load from this address and nothing else,
and run no script that is written into it: a group whose name is a script stays a name.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from admin_api.errors import ApiError

router = APIRouter(include_in_schema=False)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked for again each time, and answered with 304
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_DIRECTORY = Path(__file__).parent.parent / "dashboard"
_LIBRARIES = {
    "swagger-ui-bundle.js": ("fastapi_offline", "static"),
    "swagger-ui.css": ("fastapi_offline", "static"),
}
"""Files of installed packages: the package and the folder in it."""


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    compressed: bytes
    etag: str
    media_type: str


@cache
def _files() -> dict[str, Path]:
    found = {path.name: path for path in _DIRECTORY.iterdir() if path.suffix in _TYPES}
    for name, (package, folder) in _LIBRARIES.items():
        library = find_spec(package)
        if library is not None and library.origin is not None:
            found[name] = Path(library.origin).parent / folder / name
    return found


@cache
def _read(name: str) -> _File:
    content = _files()[name].read_bytes()
    etag = f'"{sha256(content).hexdigest()[:32]}"'
    return _File(content, gzip.compress(content, 6), etag, _TYPES[Path(name).suffix])


@router.get("/")
async def get_page(request: Request) -> Response:
    """Return the page."""
    return await _answer("index.html", request)


@router.get("/docs")
async def get_docs(request: Request) -> Response:
    """Return the description of all endpoints, to read and to try."""
    return await _answer("docs.html", request)


@router.get("/dashboard/{name}")
async def get_file(name: str, request: Request) -> Response:
    """Return a file that the page names."""
    if name not in _files():
        raise ApiError(404, f"Nothing answers under {request.url.path}")
    return await _answer(name, request)


async def _answer(name: str, request: Request) -> Response:
    # Compressing the library of /docs takes a while, once: no other request waits for it.
    file = await run_in_threadpool(_read, name)
    headers = _HEADERS | {"ETag": file.etag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, headers=headers, media_type=file.media_type)
    headers["Content-Encoding"] = "gzip"
    return Response(file.compressed, headers=headers, media_type=file.media_type)
