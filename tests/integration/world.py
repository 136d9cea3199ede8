"""Helpers of the tests against the real cluster."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from deploy.background import Background
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from deploy.local.topics import TopicCounters, Topics
from tests.integration.windows import WINDOWS, Rates, windows

TENANT = "quota-tests"

PATIENCE_S = 120.0
"""A machine that starts three brokers beside a test keeps its processors for half of that."""

_QUARTERS = 4
"""The number of readings in a window."""


@dataclass
class World:
    """A cluster with sidecars, a namespace of one test, and a way to ask them things."""

    cluster: Cluster
    sidecars: Sidecars
    topics: Topics
    namespace: str
    #: Broker name to the full name of a topic that it owns.
    topic_of: dict[str, str]
    http: httpx.Client

    @property
    def group(self) -> str:
        """The name of the test's resource group."""
        return self.namespace.replace("/", "-")

    def place(self) -> None:
        """Have a topic on every broker again, if one that ended has left its topics to the others."""
        if any(self.topics.owner(topic).name != name for name, topic in self.topic_of.items()):
            self.topic_of = self.topics.one_for_each_broker(self.namespace, "t")

    def limit(self, **settings: float | str) -> None:
        """Create or change the test's group at one sidecar and attach its namespace at another.

        All sidecars then know the group, and that the namespace is attached to it.
        """
        self.sidecars.limit(self.group, settings)
        self.attach(self.namespace)
        wait_until_known(self.group, self.topic_of, self.sidecars, self.http)

    def attach(self, namespace: str) -> None:
        """Attach a namespace to the test's group at one sidecar; all that run then know of it."""
        self.sidecars.attach(namespace, self.group)

    def put(self, path: str, body: object, at: str) -> None:
        """PUT to a sidecar's admin API."""
        self.http.put(self.sidecars.admin_url(at) + path, json=body).raise_for_status()

    def get(self, path: str, at: str = "broker-1") -> Any:
        """GET from a sidecar's admin API."""
        answer = self.http.get(self.sidecars.admin_url(at) + path)
        answer.raise_for_status()
        return answer.json()

    def local_limit(self, name: str) -> int:
        """A broker's local limit of published messages of the test's group, by its own sidecar."""
        return int(self.explained(name)["localLimit"])

    def explained(self, name: str) -> Any:
        """Why that limit is what it is."""
        return self.get(f"/quota/v1/explain/{self.group}", at=name)

    def local_limits(self) -> dict[str, dict[str, Any]]:
        """Every broker's local limits of the test's group, as that broker's own sidecar has them."""
        found = {}
        for name in self.topic_of:
            rows = self.get(f"/quota/v1/usage/{self.group}", at=name)["brokers"]
            found[name] = next(row["limits"] for row in rows if row["broker"] == name)
        return found

    def shares(self) -> list[int]:
        """The local limits of the brokers in messages, greatest first."""
        limits = [row["publishRateInMsgs"] for row in self.local_limits().values()]
        return sorted(limits, reverse=True)

    @contextmanager
    def load(self, rates: dict[str, int]) -> Iterator[Mapping[str, subprocess.Popen[bytes]]]:
        """Producers in processes of their own, one for each broker's topic, messages per second."""
        processes = {
            name: subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "deploy.demo.load", "--url", self.sidecars.service_url),
                    *("--topic", self.topic_of[name], "--rate", str(rate)),
                ],
                stdout=subprocess.DEVNULL,
            )
            for name, rate in rates.items()
        }
        try:
            yield processes
        finally:
            for process in processes.values():
                process.terminate()
            for process in processes.values():
                process.wait(timeout=60)

    def measure(self, seconds: float) -> Rates:
        """Messages per second that each broker took in, by its own counters."""
        return self.windows(seconds, 1)[0]

    def windows(self, seconds: float, number: int = WINDOWS) -> list[Rates]:
        """Messages per second that each broker takes in, in windows that follow one another."""
        return windows(
            lambda: {
                name: (each.messages, each.middle_s) for name, each in self._counters().items()
            },
            seconds,
            number,
        )

    def comes_to(
        self,
        holds: Callable[[dict[str, float]], bool],
        what: str,
        seconds: float = 2.0,
        *,
        windows: int = 2,
    ) -> dict[str, float]:
        """Measure until a condition holds in some windows in a row; return the rates in the last one.

        A machine that stands still for a moment takes the load away from a broker, and its part is then
        rightly another's: the condition is the one that traffic comes back to and keeps. Windows begin
        at any quarter of one, so that what the condition waits for costs no window of its own.
        """
        deadline = time.monotonic() + PATIENCE_S + seconds
        seen = deque([self._counters()], maxlen=windows * _QUARTERS + 1)
        while True:
            time.sleep(seconds / _QUARTERS)
            seen.append(self._counters())
            if len(seen) == seen.maxlen:
                edges = pairwise(list(seen)[::_QUARTERS])
                rates = [self._rates(before, after) for before, after in edges]
                if all(map(holds, rates)):
                    return rates[-1]
            measured = self._rates(seen[max(0, len(seen) - 1 - _QUARTERS)], seen[-1])
            assert time.monotonic() < deadline, f"never {what}; at last {measured}"

    @contextmanager
    def held_to(self, limit: int, names: Collection[str]) -> Iterator[None]:
        """Check that these brokers together never take in more than a limit meanwhile.

        In every run of seconds, by their own counters: at most what the limit allows, and as much more
        as passes in 0.65 s, which are a bucket's burst (0.05 s), what is counted late (0.1 s), and a
        broker that stood still for half a second.
        """
        with _Counting(self._counters) as counting:
            yield
            assert counting.alive, "the counters have stopped"
        seen = counting.seen
        assert len(seen) > 1, "nothing was seen"
        for before, after in combinations(seen, 2):
            passed = sum(after[name].messages - before[name].messages for name in names)
            began_s = min(before[name].asked_s for name in names)
            took_s = max(after[name].answered_s for name in names) - began_s
            assert passed <= limit * (took_s + 0.65), f"{passed} in {took_s:.2f} s, limit {limit}"

    @staticmethod
    def _rates(before: Mapping[str, _Counted], after: Mapping[str, _Counted]) -> dict[str, float]:
        return {
            name: (after[name].messages - each.messages) / (after[name].middle_s - each.middle_s)
            for name, each in before.items()
        }

    def taken(self) -> dict[str, int]:
        """The messages that each broker has taken in, by its own counters."""
        return {
            name: self.topics.counters(topic).messages_in for name, topic in self.topic_of.items()
        }

    def counted(self, topic: str) -> tuple[TopicCounters, float]:
        """Return its broker's counters of a topic, and the moment of their reading."""
        asked_s = time.monotonic()
        found = self.topics.counters(topic)
        return found, (asked_s + time.monotonic()) / 2

    def _counters(self) -> dict[str, _Counted]:
        found = {}
        for name, topic in self.topic_of.items():
            asked_s = time.monotonic()
            messages = self.topics.counters(topic).messages_in
            found[name] = _Counted(messages, asked_s, time.monotonic())
        return found


def wait_until_known(
    group: str, brokers: Collection[str], sidecars: Sidecars, http: httpx.Client
) -> None:
    """Wait until the sidecars of these brokers know a group, so that each can be asked of it."""

    def is_known_at(broker: str) -> bool:
        try:
            return http.get(f"{sidecars.admin_url(broker)}/quota/v1/usage/{group}").is_success
        except httpx.TransportError:  # a sidecar that is dead need not know
            return True

    eventually(lambda: all(map(is_known_at, brokers)), f"all know {group}")


def make_world(cluster: Cluster, sidecars: Sidecars, http: httpx.Client, namespace: str) -> World:
    """Make a namespace with one topic on every broker."""
    topics = Topics(cluster.brokers)
    topics.create_tenant(TENANT)
    topics.create_namespace(namespace, bundles=12)
    by_broker = topics.one_for_each_broker(namespace, "t")
    return World(cluster, sidecars, topics, namespace, by_broker, http)


@dataclass(frozen=True)
class _Counted:
    """A broker's counter, and the moments around its reading, in seconds of the monotonic clock."""

    messages: int
    asked_s: float
    answered_s: float

    @property
    def middle_s(self) -> float:
        return (self.asked_s + self.answered_s) / 2


class _Counting(Background):
    """Reads counters once a second."""

    def __init__(self, read: Callable[[], dict[str, _Counted]]) -> None:
        super().__init__({"counting": self._count})
        self._read = read
        self.seen: list[dict[str, _Counted]] = []

    def _count(self) -> None:
        while not self._stop.is_set():
            self.seen.append(self._read())
            self._stop.wait(1.0)


def eventually(
    condition: Callable[[], bool],
    what: str,
    timeout_s: float = PATIENCE_S,
    *,
    last: Callable[[], object] = lambda: "not so",
) -> None:
    """Wait until something holds; the failure says what never did, and what is at last.

    A question costs the processors that all brokers share, so the longer it takes the rarer it is asked:
    an answer is late by an eighth of that time at most.
    """
    began_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began_s
        assert waited_s < timeout_s, f"not within {timeout_s} s: {what}; at last {last()}"
        time.sleep(min(max(0.05, waited_s / 8), 0.25))


def broker_metrics(http: httpx.Client, broker: Broker) -> str:
    """All metrics of a broker; it is asked again when it could not put them together.

    It answers 500, one time of 15,000, when a subscription comes or goes meanwhile (its log has the
    ConcurrentModificationException).
    """
    answers: list[httpx.Response] = []

    def has_answered() -> bool:
        answers.append(http.get(f"{broker.web_url}/metrics/"))
        return answers[-1].status_code != httpx.codes.INTERNAL_SERVER_ERROR

    eventually(has_answered, f"{broker.name} tells its metrics")
    return answers[-1].raise_for_status().text


def least_per_second(times: Sequence[float]) -> float:
    """Return the rate that at least half of the seconds between these moments reach.

    A second in which the machine stands still has none, and no limit saves that up; the mean has it.
    """
    first, last = min(times), max(times)
    seconds = Counter(int(at - first) for at in times)
    return statistics.median(seconds[second] for second in range(int(last - first)))


@contextmanager
def other_sidecars(
    cluster: Cluster,
    directory: Path,
    settings: Mapping[str, object],
    of_brokers: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> Iterator[Sidecars]:
    """Sidecars with other settings than the session's, which are not there yet.

    Some settings may be those of single brokers' sidecars.
    """
    with Sidecars(cluster, directory, settings) as own:
        for name, each in of_brokers.items():
            own.reload(name, each)
        own.start()
        yield own


@contextmanager
def world_of_others(
    cluster: Cluster, directory: Path, settings: Mapping[str, object]
) -> Iterator[World]:
    """A world of `other_sidecars`, in a namespace named like their directory."""
    with (
        other_sidecars(cluster, directory, settings) as own,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        yield make_world(cluster, own, http, f"{TENANT}/{directory.name}")
