"""The brokers' admin REST, with a stand-in for brokers."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from deploy.local import readiness, rest
from deploy.local.errors import AdminRestError, LocalClusterError
from deploy.local.state import Broker
from deploy.local.topics import TopicCounters, Topics


class _Admin(BaseHTTPRequestHandler):
    """Answers by a table of (method, path) and keeps what it was asked.

    What is to be answered first stands before that, one after the other.
    """

    answers: ClassVar[dict[tuple[str, str], tuple[int, str]]] = {}
    at_first: ClassVar[dict[tuple[str, str], list[tuple[int, str]]]] = {}
    asked: ClassVar[list[tuple[str, str, str]]] = []

    def _answer(self) -> None:
        """Answer any method."""
        length = int(self.headers.get("Content-Length", 0))
        self.asked.append((self.command, self.path, self.rfile.read(length).decode()))
        question = (self.command, self.path)
        first = self.at_first.get(question)
        status, body = first.pop(0) if first else self.answers.get(question, (200, ""))
        self.send_response(status)
        if status == 307:
            self.send_header("Location", body)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self) -> None:
        """Answer a question."""
        self._answer()

    def do_PUT(self) -> None:
        """Answer a change."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a setting."""
        self._answer()

    def log_request(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker whose admin REST is the stand-in."""
    _Admin.answers.clear()
    _Admin.at_first.clear()
    _Admin.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Admin) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Broker(
            name="broker-1",
            port=6650,
            log_file="",
            command=(),
            broker_port=6650,
            web_port=server.server_address[1],
            gate_port=1,
            gate_upstream_port=2,
            admin_port=3,
        )
        server.shutdown()
        thread.join()


def asked_to_change() -> list[tuple[str, str, str]]:
    """Return what was asked, without the questions whether the broker is ready."""
    return [line for line in _Admin.asked if not line[1].endswith("/ready")]


def test_a_redirected_request_keeps_its_method_and_body(broker: Broker) -> None:
    """A broker sends every change of another broker's topics there with 307."""
    _Admin.answers["PUT", "/here"] = (307, "/there")
    rest.request("PUT", f"{broker.web_url}/here", {"a": 1})
    assert asked_to_change()[-1] == ("PUT", "/there", '{"a": 1}')


def test_redirects_without_end_are_an_error(broker: Broker) -> None:
    """Two brokers that point at each other are left after a few rounds."""
    _Admin.answers["GET", "/loop"] = (307, "/loop")
    with pytest.raises(AdminRestError, match="redirects"):
        rest.request("GET", f"{broker.web_url}/loop")


def test_an_error_carries_status_and_reason(broker: Broker) -> None:
    """The error keeps the broker's words."""
    _Admin.answers["GET", "/x"] = (404, '{"reason":"gone"}')
    with pytest.raises(AdminRestError, match="gone") as caught:
        rest.request("GET", f"{broker.web_url}/x")
    assert caught.value.status == 404


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
def test_an_answer_that_breaks_off_is_an_error_like_none(answer: bytes) -> None:
    """As of a broker that is killed while it answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def break_off() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=break_off)
        thread.start()
        with pytest.raises(LocalClusterError, match="answered"):
            rest.request("GET", f"http://127.0.0.1:{listening.getsockname()[1]}/x")
        thread.join()


def test_a_broker_is_asked_past_the_proxy_of_the_environment(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy elsewhere knows nothing of this machine's loopback address."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr(urllib.request, "_opener", None)
    assert readiness.broker_ready(broker)


def test_what_exists_already_may_be_created_again(broker: Broker) -> None:
    """409 is no error for a tenant; anything else is."""
    _Admin.answers["PUT", "/admin/v2/tenants/t"] = (409, "")
    Topics([broker]).create_tenant("t")
    _Admin.answers["PUT", "/admin/v2/tenants/t"] = (403, "")
    with pytest.raises(AdminRestError):
        Topics([broker]).create_tenant("t")


def test_a_namespace_is_created_with_its_bundles(broker: Broker) -> None:
    """The number stands where Pulsar looks for it."""
    Topics([broker]).create_namespace("t/n", bundles=12)
    body = json.dumps({"bundles": {"numBundles": 12}})
    assert asked_to_change() == [("PUT", "/admin/v2/namespaces/t/n", body)]


def test_brokers_are_told_to_limit_publishing_to_a_namespace(broker: Broker) -> None:
    """Its messages; its bytes are not limited."""
    Topics([broker]).limit_publishing("t/n", 100)
    body = json.dumps({"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": -1})
    assert asked_to_change() == [("POST", "/admin/v2/namespaces/t/n/publishRate", body)]


def test_the_owner_is_found_by_its_internal_listener(broker: Broker) -> None:
    """A stranger as owner is an error, not a guess."""
    path = "/lookup/v2/topic/persistent/t/n/a?listenerName=internal"
    _Admin.answers["GET", path] = (200, '{"brokerUrl":"pulsar://127.0.0.1:6650"}')
    assert Topics([broker]).owner("persistent://t/n/a") == broker
    _Admin.answers["GET", path] = (200, '{"brokerUrl":"pulsar://127.0.0.1:6651"}')
    with pytest.raises(LocalClusterError, match="none of our brokers"):
        Topics([broker]).owner("persistent://t/n/a")


def test_a_bundle_is_moved_though_the_brokers_do_not_know_its_destination_yet(
    broker: Broker,
) -> None:
    """They are asked again until they accept, and then until it is there."""
    lookup = "/lookup/v2/topic/persistent/t/n/a"
    unload = (
        f"/admin/v2/namespaces/t/n/0x0_0x1/unload?destinationBroker=127.0.0.1:{broker.web_port}"
    )
    other = replace(broker, name="other", broker_port=6651)
    _Admin.answers["GET", f"{lookup}/bundle"] = (200, "0x0_0x1")
    at_owner = ("GET", f"{lookup}?listenerName=internal")
    _Admin.at_first[at_owner] = [(200, '{"brokerUrl":"pulsar://127.0.0.1:6651"}')] * 4
    _Admin.answers[at_owner] = (200, '{"brokerUrl":"pulsar://127.0.0.1:6650"}')
    _Admin.at_first["PUT", unload] = [(409, '{"reason":"inactive destination broker"}')] * 2
    Topics([broker, other]).move("persistent://t/n/a", broker)
    assert [line[1] for line in asked_to_change() if line[0] == "PUT"] == [unload] * 3


@pytest.mark.parametrize(
    "answer",
    [
        (500, '{"reason":"Failed to acquire ownership"}'),
        (404, '{"reason":"KeeperErrorCode = NoNode for /namespace/t/n/0xa0000000_0xb0000000"}'),
    ],
)
def test_brokers_that_get_in_each_others_way_are_asked_again(
    broker: Broker, answer: tuple[int, str]
) -> None:
    """Of two that want a bundle at once one fails, and a little later one of them has it."""
    question = ("GET", "/lookup/v2/topic/persistent/t/n/a?listenerName=internal")
    _Admin.at_first[question] = [answer] * 2
    _Admin.answers[question] = (200, f'{{"brokerUrl":"pulsar://127.0.0.1:{broker.broker_port}"}}')
    assert Topics([broker]).owner("persistent://t/n/a") == broker


def test_counters_are_the_owners(broker: Broker) -> None:
    """Messages and bytes, in and out."""
    stats = {"msgInCounter": 1, "bytesInCounter": 2, "msgOutCounter": 3, "bytesOutCounter": 4}
    _Admin.answers["GET", "/admin/v2/persistent/t/n/a/stats"] = (200, json.dumps(stats))
    assert Topics([broker]).counters("persistent://t/n/a") == TopicCounters(1, 2, 3, 4)


def test_without_a_ready_broker_nothing_is_asked(broker: Broker) -> None:
    """The error says that the cluster is the trouble."""
    _Admin.answers["GET", "/admin/v2/brokers/ready"] = (503, "")
    with pytest.raises(LocalClusterError, match="No broker"):
        Topics([broker]).create_tenant("t")
