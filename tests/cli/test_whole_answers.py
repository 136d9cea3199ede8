"""An exchange with a server ends in time and in memory, whatever the server does."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread

import httpx
import pytest

from coordinator.cli import whole_answers
from coordinator.cli.whole_answers import AnswerTooLarge, WholeAnswers, in_words

PIECES = 1_000


@contextmanager
def dripping(beginning: bytes, end: bytes) -> Iterator[tuple[str, Thread]]:
    """Serve one connection: a beginning at once, then a byte each 10 ms, and at last the end.

    Yields:
        The URL, and the thread that serves, which ends when the other side has hung up.
    """
    over = Event()

    def serve() -> None:
        peer, _ = server.accept()
        with peer:
            peer.recv(65_536)
            try:
                peer.sendall(beginning)
                for _ in range(PIECES):
                    over.wait(0.01)
                    peer.sendall(b"x")
                peer.sendall(end)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", thread
        finally:
            over.set()


@pytest.mark.parametrize(
    ("beginning", "end"),
    [
        (b"HTTP/1.1 200 OK\r\nslow: ", b"\r\ncontent-length: 0\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % PIECES, b""),
    ],
)
def test_a_server_that_never_pauses_for_long_is_waited_for_once(
    beginning: bytes, end: bytes
) -> None:
    """The deadline is that of the whole exchange, in the head as in the body; then it is hung up."""
    open_client = partial(httpx.Client, timeout=30.0, trust_env=False)
    with dripping(beginning, end) as (url, thread), WholeAnswers(open_client, 0.2) as http:
        with pytest.raises(httpx.ReadTimeout, match=r"no whole answer within 0\.2 s"):
            http.request("GET", url)
        thread.join(30.0)
        assert not thread.is_alive()


def test_after_a_late_answer_the_next_one_is_read() -> None:
    """A live table goes on to ask."""
    late, asked = Event(), []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) == 1:
            late.wait(30.0)
        return httpx.Response(200, text="here")

    open_client = partial(httpx.Client, transport=httpx.MockTransport(answer))
    with WholeAnswers(open_client, 0.2) as http:
        with pytest.raises(httpx.ReadTimeout):
            http.request("GET", "http://sidecar")
        late.set()

        assert http.request("GET", "http://sidecar").text == "here"


def test_an_answer_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted unpacked, and read no further."""
    monkeypatch.setattr(whole_answers, "ANSWER_MAX", 1 << 20)
    packed = gzip.compress(b"x" * ((1 << 20) + 1))
    read: list[int] = []

    def pieces() -> Iterator[bytes]:
        for piece in (packed, packed):
            read.append(len(piece))
            yield piece

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-encoding": "gzip"}, content=pieces())

    open_client = partial(httpx.Client, transport=httpx.MockTransport(answer))
    with (
        WholeAnswers(open_client, 30.0) as http,
        pytest.raises(AnswerTooLarge, match="an answer of more than 1 MiB"),
    ):
        http.request("GET", "http://sidecar")

    assert len(read) == 1


def test_a_packed_answer_is_unpacked_once() -> None:
    """Its other headers remain."""
    headers = {"content-encoding": "gzip", "etag": '"7"'}
    whole = httpx.Response(200, headers=headers, content=gzip.compress(b'{"a": 1}'))

    open_client = partial(httpx.Client, transport=httpx.MockTransport(lambda _: whole))
    with WholeAnswers(open_client, 30.0) as http:
        found = http.request("GET", "http://sidecar")

    assert (found.json(), found.headers["etag"]) == ({"a": 1}, '"7"')


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), "connection refused"),
        (httpx.ConnectError("[Errno -2] Name or service not known"), "name or service not known"),
        (
            httpx.ConnectError(
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate "
                "(_ssl.c:1006)"
            ),
            "certificate verify failed: self-signed certificate",
        ),
        (httpx.ConnectError("EOF occurred in violation of protocol"), "EOF occurred"),
        (httpx.ReadError(""), ""),
    ],
)
def test_an_error_is_told_in_words(error: Exception, words: str) -> None:
    """Numbers of the system are for programs."""
    assert in_words(error).startswith(words)
    assert "[" not in in_words(error)
    assert ".c:" not in in_words(error)
