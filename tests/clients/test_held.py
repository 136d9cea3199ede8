"""Stock clients that end while a gate holds messages of theirs: none that failed is published later."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pulsar
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.clients.harness import run_scenes
from tests.clients.releases import HELD, Release, all_releases
from tests.integration.told import DROPPED, held, sample
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = [pytest.mark.cluster, pytest.mark.verify, pytest.mark.timeout(300)]

SENT = 200
"""The messages that a scene sends at once, of which the gate lets one pass a second."""

Requests = Callable[[str], bool]

_numbers = itertools.count()

clients = pytest.mark.parametrize(
    "client",
    [each for each in all_releases() if each.name in HELD],
    ids=lambda release: release.name,
)


class Killed(Exception):
    """The program is to be killed."""


class Limited:
    """A namespace with one message per second, and what its program asks for.

    Args:
        world: whose namespace it is.
        directory: for the program's log.
    """

    def __init__(self, world: World, directory: Path) -> None:
        self.topic = f"persistent://{world.namespace}/held"
        #: The messages that the broker had when its producer had closed.
        self.published = 0
        self._world = world
        self._directory = directory
        world.limit(publishRateInMsgs=1)
        self._dropped = self._all_dropped()

    def __call__(self, line: str) -> bool:
        """Answer a line of the program; False if it is no request."""
        match line.split():
            case ["held", self.topic]:
                eventually(
                    self._is_all_held, f"a message of {SENT} has passed, the others are held"
                )
            case ["lift", self.topic]:
                self.lift()
            case _:
                return False
        return True

    def lift(self) -> None:
        """Count what was published before, and lift the limit."""
        self.published = self.messages
        path = f"/admin/v2/resourcegroups/{self._world.group}"
        self._world.put(path, {"publishRateInMsgs": -1}, at="broker-2")

    @property
    def messages(self) -> int:
        """The messages that the broker has."""
        return self._world.topics.counters(self.topic).messages_in

    @property
    def held(self) -> int:
        """The messages that all gates hold."""
        return sum(held(self._world, name) for name in self._world.topic_of)

    @property
    def dropped(self) -> int:
        """The messages that the gates have dropped since the namespace was limited."""
        return self._all_dropped() - self._dropped

    def _is_all_held(self) -> bool:
        published = self.messages
        return published > 0 and self.held + published == SENT

    def _all_dropped(self) -> int:
        return sum(int(sample(self._world, name, DROPPED) or 0) for name in self._world.topic_of)

    def play(self, client: Release, scene: str, requests: Requests) -> None:
        """Run a scene of a client."""
        url, log = self._world.sidecars.service_url, self._directory / "client.log"
        namespace = self._world.namespace
        (outcome,) = run_scenes(client.launch(), url, namespace, requests, log, [scene])
        assert outcome.outcome == "done", outcome.why


@pytest.fixture
def limited(cluster: Cluster, sidecars: Sidecars, tmp_path: Path) -> Iterator[Limited]:
    """A namespace of its own with one message per second."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        world = make_world(cluster, sidecars, http, f"{TENANT}/held-{next(_numbers)}")
        yield Limited(world, tmp_path)


@clients
@pytest.mark.parametrize("scene", ["closing_held", "client_closed_held"])
def test_what_a_closing_client_is_told_has_failed_is_never_published(
    limited: Limited, client: Release, scene: str
) -> None:
    """Its close is answered before what is held has passed, and its name is free at once."""
    limited.play(client, scene, limited)

    assert limited.dropped == SENT - limited.published
    assert limited.messages == limited.published + 1


@clients
def test_what_a_client_that_closes_at_once_is_told_has_failed_is_never_published(
    limited: Limited, client: Release
) -> None:
    """The same without a pause before the close, which Go's client may send before the messages."""
    limited.play(client, "closing_at_once", limited)

    assert limited.dropped <= SENT - limited.published
    assert limited.messages == limited.published + 1


@clients
def test_what_is_held_of_a_killed_client_is_never_published(
    limited: Limited, client: Release, connect: Callable[[str], pulsar.Client], sidecars: Sidecars
) -> None:
    """It is dropped and counted, and another client can open a producer of that name."""

    def kill(line: str) -> bool:
        if limited(line):
            raise Killed
        return False

    with pytest.raises(Killed):
        limited.play(client, "closing_held", kill)
    eventually(lambda: limited.held == 0, "none is held")
    other = connect(sidecars.service_url)
    producers: list[pulsar.Producer] = []

    def has_opened() -> bool:
        with suppress(pulsar.ProducerBusy):  # until the broker has seen that the connection is gone
            options = {"producer_name": "orders", "batching_enabled": False}
            producers.append(other.create_producer(limited.topic, **options))
        return bool(producers)

    eventually(has_opened, "the name is free")
    limited.lift()
    producers[0].send(b"last")

    assert limited.dropped == SENT - limited.published
    assert limited.messages == limited.published + 1
