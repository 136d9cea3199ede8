"""Runs a client's programme as a process of its own, and reads what comes of its scenes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from deploy.local.cluster import Cluster
from deploy.local.topics import Topics
from tests.clients.releases import Launch

TENANT = "clients"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one scene: done, not in this release, or failed."""

    scene: str
    outcome: str
    seconds: float
    why: str = ""

    @property
    def failed(self) -> bool:
        """Whether it went wrong."""
        return self.outcome == "failed"


class NamespaceMaker:
    """Makes a namespace for each client, with a topic of three partitions.

    Args:
        cluster: where to make them, and to do what programmes ask for.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics = Topics(cluster.brokers)
        self._made = itertools.count()
        self.requests = AdminRequests(cluster.web_url())

    def make(self) -> str:
        """Make one, and say its name."""
        namespace = f"{TENANT}/n{time.time_ns()}-{next(self._made)}"
        self._topics.create_tenant(TENANT)
        self._topics.create_namespace(namespace, bundles=12)
        path = f"/admin/v2/persistent/{namespace}/parts/partitions"
        with httpx.Client(trust_env=False, timeout=30) as http:
            http.put(self._cluster.web_url() + path, json=3).raise_for_status()
        return namespace


class AdminRequests:
    """Does to topics what a programme asks for, at whichever broker has them."""

    def __init__(self, web_url: str) -> None:
        self._web_url = web_url

    def __call__(self, line: str) -> bool:
        """Answer a line of a programme; False if it is no request. Raises if no broker does it."""
        match line.split():
            case ["unload", topic]:
                self._ask("PUT", f"{topic.replace('://', '/')}/unload")
            case ["scale", topic, segments]:
                self._ask("PUT", f"{_scalable(topic)}?numInitialSegments={segments}", {})
            case ["split", topic, segment]:
                self._ask("POST", f"{_scalable(topic)}/split/{segment}")
            case ["merge", topic, one, other]:
                self._ask("POST", f"{_scalable(topic)}/merge/{one}/{other}")
            case _:
                return False
        return True

    def _ask(self, method: str, path: str, body: object = None) -> None:
        url = f"{self._web_url}/admin/v2/{path}"
        with httpx.Client(trust_env=False, timeout=30, follow_redirects=True) as http:
            http.request(method, url, json=body).raise_for_status()


def _scalable(topic: str) -> str:
    return f"scalable/{topic.removeprefix('topic://')}"


def try_client(
    launch: Launch, url: str, namespaces: NamespaceMaker, log: Path, scenes: Sequence[str] = ()
) -> list[Outcome]:
    """Run a client's programme in a namespace of its own.

    No scenes are all but `idle`; `-scene` leaves one out.

    Raises:
        AssertionError: it ended badly; the end of its log is in the text.
    """
    return run_scenes(launch, url, namespaces.make(), namespaces.requests, log, scenes)


def run_scenes(
    launch: Launch,
    url: str,
    namespace: str,
    requests: Callable[[str], bool],
    log: Path,
    scenes: Sequence[str],
) -> list[Outcome]:
    """Run a client's programme in a namespace that exists; raises as `try_client`."""
    command = (*launch.command, url, namespace, *scenes)
    return _run(command, requests, log, {**os.environ, **launch.environment})


def _run(
    command: Sequence[str],
    requests: Callable[[str], bool],
    log: Path,
    environment: Mapping[str, str],
    timeout_s: float = 480,
) -> list[Outcome]:
    """Run a programme to its end.

    Raises:
        AssertionError: it ended badly; the end of its log is in the text.
    """
    outcomes = []
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        assert process.stdin
        assert process.stdout
        alarm = threading.Timer(timeout_s, process.kill)
        alarm.start()
        try:
            for line in process.stdout:
                if requests(line):
                    process.stdin.write("done\n")
                    process.stdin.flush()
                elif line.startswith("{"):
                    outcomes.append(Outcome(**json.loads(line)))
            code = process.wait(timeout=30)
        finally:
            alarm.cancel()
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
    assert code == 0, f"{command[0]} ended with {code}: {log.read_text()[-3000:]}"
    return outcomes
