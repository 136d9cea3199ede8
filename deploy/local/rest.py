"""JSON over HTTP to a broker's admin REST, with the standard library.

A broker answers 307 for what another broker owns. urllib follows that for GET only, hence the loop
here, which repeats method and body.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import urljoin

from deploy.local.errors import AdminRestError, LocalClusterError

_TIMEOUT_S = 15.0
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Leave redirects to the caller."""


# Brokers are on this machine: a proxy that the environment names must not be asked for them.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)


def request(method: str, url: str, body: object = None, *, timeout_s: float = _TIMEOUT_S) -> str:
    """Send one request, its body as JSON unless None, and return the text of the answer.

    Raises:
        AdminRestError: the broker answered with an error, or with too many redirects.
        LocalClusterError: the broker could not be reached, did not answer in time, or broke off.
    """
    target = url
    for _ in range(_MOST_REDIRECTS + 1):
        message = urllib.request.Request(target, method=method)
        if body is not None:
            message.data = json.dumps(body).encode()
            message.add_header("Content-Type", "application/json")
        try:
            with _opener.open(message, timeout=timeout_s) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _REDIRECTS:
                    raise AdminRestError(method, target, error.code, _start_of(error)) from error
                target = urljoin(target, error.headers["Location"])
        except (OSError, HTTPException) as error:
            raise LocalClusterError(f"{method} {target} was not answered: {error}") from error
    raise AdminRestError(method, url, 310, f"more than {_MOST_REDIRECTS} redirects")


def _start_of(answer: urllib.error.HTTPError) -> str:
    try:
        return answer.read(2000).decode(errors="replace")
    except (OSError, HTTPException) as error:
        return f"(its text broke off: {error})"
