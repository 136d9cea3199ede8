"""Requests of a command: each exchange is bounded as a whole, in time and in size.

httpx bounds the wait for each piece of an answer, so a server that sends a byte a second would keep a
command waiting for ever; looking up a host's name it does not bound at all. Here a thread carries out
each exchange, and the command waits for it until the deadline. A thread that is late ends when its
connection has been closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, Self

import httpx

ANSWER_MAX: Final = 32 * 1024 * 1024
"""Bytes of an answer's body, unpacked; the largest page of a sidecar or a broker has a tenth of it."""

_ADORNMENT: Final = re.compile(r"^\[[^\]]*\] |\s*\(_ssl\.c:\d+\)$")
"""Of the system's and of OpenSSL's errors: a number before the words, a line of C behind them."""


class AnswerTooLarge(httpx.HTTPError):
    """An answer is larger than `ANSWER_MAX`."""


class WholeAnswers:
    """An HTTP client that returns whole answers or none; a context, at whose end connections close.

    Args:
        open_client: returns the client that carries the requests; called again after a late answer.
        within_s: seconds for each exchange, from the look-up of the host to the last byte.
    """

    def __init__(self, open_client: Callable[[], httpx.Client], within_s: float) -> None:
        self._open_client = open_client
        self._within_s = within_s
        self._client = open_client()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def request(
        self,
        method: str,
        url: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Return the whole response to a request.

        Raises:
            httpx.ReadTimeout: it has not arrived in time.
            AnswerTooLarge: its body is too large.
            httpx.HTTPError, httpx.InvalidURL, UnicodeError: as httpx raises them.
        """
        client = self._client
        outcome: SimpleQueue[httpx.Response | Exception] = SimpleQueue()

        def exchange() -> None:
            try:
                with client.stream(method, url, json=body, params=query, headers=headers) as answer:
                    outcome.put(_whole(answer))
            except Exception as error:  # noqa: BLE001 - raised where the outcome is awaited
                outcome.put(error)

        Thread(target=exchange, name="exchange", daemon=True).start()
        try:
            found = outcome.get(timeout=self._within_s)
        except Empty:
            client.close()
            self._client = self._open_client()
            found = httpx.ReadTimeout("late")
        if isinstance(found, httpx.TimeoutException):
            raise httpx.ReadTimeout(f"no whole answer within {self._within_s:g} s") from found
        if isinstance(found, Exception):
            raise found
        return found


def in_words(error: Exception) -> str:
    """Return a failed attempt's reason without numbers of the system: connection refused."""
    text = _ADORNMENT.sub("", str(error))
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _whole(answer: httpx.Response) -> httpx.Response:
    content = bytearray()
    for piece in answer.iter_bytes():
        content += piece
        if len(content) > ANSWER_MAX:
            raise AnswerTooLarge(f"an answer of more than {ANSWER_MAX >> 20} MiB")
    return httpx.Response(
        answer.status_code,
        # The content is unpacked.
        headers=[each for each in answer.headers.multi_items() if each[0] != "content-encoding"],
        content=bytes(content),
        request=answer.request,
    )
