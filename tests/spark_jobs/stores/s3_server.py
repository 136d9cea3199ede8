"""A store that speaks S3, as a program: it prints its port, and serves until it is ended.

What a bucket's name begins with decides its mood: of ``busy-`` every third request is answered with 503,
of ``crowded-`` every third one that writes, and to ``readonly-`` nothing can be written after the bucket
itself.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

Environment = dict[str, Any]
StartResponse = Callable[..., Any]


class Moody:
    """The store behind a door that does not always open."""

    def __init__(self) -> None:
        self._store = DomainDispatcherApplication(create_backend_app)
        self._requests = itertools.count(1)

    def __call__(self, environment: Environment, start: StartResponse) -> Iterable[bytes]:
        bucket, _, key = str(environment["PATH_INFO"]).lstrip("/").partition("/")
        writes = environment["REQUEST_METHOD"] in ("PUT", "POST", "DELETE")
        busy = bucket.startswith("busy-") or (bucket.startswith("crowded-") and writes)
        if busy and key and next(self._requests) % 3 == 0:
            return _refusal(environment, start, "503 Slow Down", "SlowDown")
        if bucket.startswith("readonly-") and key and writes:
            return _refusal(environment, start, "403 Forbidden", "AccessDenied")
        answer: Iterable[bytes] = self._store(environment, start)
        return answer


def _refusal(
    environment: Environment, start: StartResponse, status: str, code: str
) -> Iterable[bytes]:
    length = int(environment.get("CONTENT_LENGTH") or 0)
    environment["wsgi.input"].read(length)  # or the client sees a broken connection
    body = f"<Error><Code>{code}</Code><Message>{status}</Message></Error>".encode()
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [] if environment["REQUEST_METHOD"] == "HEAD" else [body]


def main() -> None:
    """Serve."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, Moody(), threaded=True)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
