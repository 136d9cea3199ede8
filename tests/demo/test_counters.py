"""Sampling brokers that serve a topic, pass it on, or are gone; the brokers are small HTTP servers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from deploy.demo import counters
from deploy.demo.counters import SENT, CounterSampler

TOPIC = "persistent://t/n/x"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give brokers longer than half a second, for a busy machine may take that time."""
    monkeypatch.setattr(counters, "_TIMEOUT_S", 30.0)


class StubBroker(ThreadingHTTPServer):
    """Answers for one topic: with its count, or that another broker owns it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.serves = False
        self.messages_in = 0
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        """Its admin REST."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: StubBroker
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        stats = {
            "msgInCounter": self.server.messages_in,
            "publishers": [{}],
            "msgOutCounter": 3,
            "subscriptions": {"s": {"consumers": [{}, {}]}, "t": {"consumers": []}},
        }
        body = json.dumps(stats).encode() if self.server.serves else b""
        self.send_response(200 if self.server.serves else 307)
        self.send_header("Location", "http://127.0.0.1:1/never-to-be-followed")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def brokers() -> Iterator[dict[str, StubBroker]]:
    """Two brokers, of which the first serves the topic."""
    stubs = {"a": StubBroker(), "b": StubBroker()}
    stubs["a"].serves, stubs["a"].messages_in = True, 7
    for stub in stubs.values():
        threading.Thread(target=stub.serve_forever, args=(0.01,), daemon=True).start()
    yield stubs
    for stub in stubs.values():
        stub.shutdown()
        stub.server_close()


def _sampler(brokers: dict[str, StubBroker]) -> CounterSampler:
    return CounterSampler({name: stub.url for name, stub in brokers.items()}, [TOPIC])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_only_the_broker_that_serves_a_topic_is_asked(brokers: dict[str, StubBroker]) -> None:
    """Its answer counts for the middle of the request."""
    before_s = time.monotonic()
    with _sampler(brokers) as sampler:
        _until(lambda: len(sampler.samples) >= 3)
    first = sampler.samples[0]
    assert (first.broker, first.messages, first.clients) == ("a", 7, 1)
    assert before_s < first.sent_s < first.at_s < first.answered_s
    assert set(brokers["a"].paths) == {"/admin/v2/persistent/t/n/x/stats"}
    assert brokers["b"].paths == []


def test_what_consumers_are_sent_is_counted_as_well(brokers: dict[str, StubBroker]) -> None:
    """Of all subscriptions together, with the consumers of all."""
    with CounterSampler({"a": brokers["a"].url}, [TOPIC], counting=SENT) as sampler:
        _until(lambda: sampler.latest(TOPIC) is not None)
    assert (sampler.samples[0].messages, sampler.samples[0].clients) == (3, 2)


def test_a_topic_that_moves_is_found_again(brokers: dict[str, StubBroker]) -> None:
    """The redirect of the old owner is not followed; the others are asked instead."""
    brokers["b"].messages_in = 2
    with _sampler(brokers) as sampler:
        _until(lambda: sampler.latest(TOPIC) is not None)
        brokers["a"].serves = False
        _until(lambda: sampler.latest(TOPIC) is None)
        brokers["b"].serves = True
        _until(lambda: sampler.latest(TOPIC) is not None)
        found = sampler.samples[-1]
    assert (found.broker, found.messages) == ("b", 2)
    assert sampler.misses[0].broker == "a"


def test_a_dead_broker_is_passed_over(brokers: dict[str, StubBroker]) -> None:
    """A refused connection is a miss like any other."""
    web_urls = {"dead": "http://127.0.0.1:1", "a": brokers["a"].url}
    with CounterSampler(web_urls, [TOPIC]) as sampler:
        _until(lambda: sampler.latest(TOPIC) is not None)
        assert sampler.alive
    assert sampler.misses[0].broker == "dead"
