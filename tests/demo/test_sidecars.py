"""The demo's sidecars as the screen and the story see them; their admin API is a small HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from deploy.demo import sidecars
from deploy.demo.sidecars import SidecarCluster
from deploy.demo.system import GROUP, BrokerStatus
from deploy.local import state
from deploy.local.cluster import Cluster
from deploy.local.errors import AdminRestError
from deploy.local.programs import Programs
from deploy.local.sidecars import PIP_82_TOPICS
from tests.deploy.test_launcher_cluster import laid_out

HEALTH, LIMITS, MEMBERS = "/quota/v1/health", "/quota/v1/limits", "/quota/v1/members"


class _Api(BaseHTTPRequestHandler):
    server: StubApi

    def do_GET(self) -> None:
        status, value = self.server.answers[self.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *_: object) -> None:
        pass


class StubApi(ThreadingHTTPServer):
    """Answers every path with a status and a value."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Api)
        limits = [{"group": GROUP, "brokers": {"broker-1": {"publishRateInMsgs": 7}}}]
        self.answers: dict[str, tuple[int, object]] = {
            HEALTH: (200, {"state": "ACTIVE"}),
            LIMITS: (200, limits),
            MEMBERS: (200, [{"broker": "broker-1"}]),
        }


class NamedBus(SidecarCluster):
    """Its bus topic needs no broker to be found."""

    settings: ClassVar[Mapping[str, object]] = {
        PIP_82_TOPICS: "non-persistent://pulsar/system/usage"
    }


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the API longer than half a second, for a busy machine may take that time."""
    monkeypatch.setattr(sidecars, "_STATUS_TIMEOUT_S", 30.0)


@pytest.fixture
def api() -> Iterator[StubApi]:
    """The admin API of the first broker's sidecar."""
    with StubApi() as stub:
        threading.Thread(target=stub.serve_forever, args=(0.01,), daemon=True).start()
        yield stub
        stub.shutdown()


@pytest.fixture
def system(api: StubApi, tmp_path: Path) -> Iterator[SidecarCluster]:
    """Two brokers, of which the second's sidecar does not answer."""
    planned = laid_out(tmp_path, brokers=2)
    first, second = planned.brokers
    first = replace(first, admin_port=api.server_port)
    state.write(replace(planned, brokers=(first, replace(second, admin_port=1))))
    system = NamedBus(Cluster(tmp_path), Programs(tmp_path), tmp_path, "balanced")
    yield system
    system.close()


def test_a_sidecar_tells_its_state_and_its_local_limit(system: SidecarCluster) -> None:
    """One that does not answer is down."""
    assert system.statuses() == {
        "broker-1": BrokerStatus("ACTIVE", 7),
        "broker-2": BrokerStatus("DOWN", None),
    }
    assert system.is_gone("broker-2")


@pytest.mark.parametrize("path", [HEALTH, LIMITS])
def test_an_answer_that_is_an_error_is_shown(
    api: StubApi, system: SidecarCluster, path: str
) -> None:
    """Its status stands where the state would."""
    api.answers[path] = 503, {"reason": "no groups yet"}

    assert system.statuses()["broker-1"] == BrokerStatus("HTTP 503", None)


def test_an_answer_that_is_an_error_ends_the_story_with_its_reason(
    api: StubApi, system: SidecarCluster
) -> None:
    """The story waits for what the answer would tell."""
    api.answers[MEMBERS] = 429, {"reason": "too many requests"}

    with pytest.raises(AdminRestError, match=f"{MEMBERS} answered 429: .*too many requests"):
        system.is_gone("broker-2")
