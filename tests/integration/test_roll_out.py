"""A running cluster gets its sidecars one after the other, and loses one again."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from deploy.chaos.links import Link, Links
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.topics import Topics
from tests.integration.world import TENANT, World, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

LIMIT = 600
OFFERED = 700
HELD_S = 5.0
NAMESPACE = f"{TENANT}/roll-out"


class Ungated:
    """Brokers without a sidecar: their external listeners lead to them, past everything."""

    def __init__(self, cluster: Cluster, links: Links) -> None:
        self._brokers = {broker.name: broker for broker in cluster.brokers}
        self._links = links
        self._open: dict[str, Link] = {}

    def lead(self, name: str) -> None:
        """Let clients reach this broker."""
        broker = self._brokers[name]
        self._open[name] = self._links.open(broker.gate_upstream_port, broker.gate_port)

    def end(self, name: str) -> None:
        """Leave the listener's port to a sidecar."""
        self._links.close(self._open.pop(name))


@pytest.fixture
def ungated(cluster: Cluster) -> Iterator[Ungated]:
    """All brokers without a sidecar."""
    with Links(seed=1) as links:
        ungated = Ungated(cluster, links)
        for broker in cluster.brokers:
            ungated.lead(broker.name)
        yield ungated


@pytest.fixture
def sidecar_less(cluster: Cluster, ungated: Ungated, tmp_path: Path) -> Iterator[World]:
    """A world whose sidecars have not been started; they share a root of their own."""
    root = {"zookeeper_root": "/roll-out"}
    with (
        Sidecars(cluster, tmp_path, root) as sidecars,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        topics = Topics(cluster.brokers)
        topics.create_tenant(TENANT)
        topics.create_namespace(NAMESPACE, bundles=12)
        by_broker = topics.one_for_each_broker(NAMESPACE, "t")
        yield World(cluster, sidecars, topics, NAMESPACE, by_broker, http)


def test_the_limit_holds_for_the_brokers_that_have_a_sidecar_at_every_step(
    sidecar_less: World, ungated: Ungated
) -> None:
    """1, 2 and 3 of 3 gated brokers share the limit; the others are free, and missing gates are told."""
    world, names = sidecar_less, list(sidecar_less.topic_of)
    with world.load(dict.fromkeys(names, OFFERED)):
        _until_passes(world, names, len(names) * OFFERED, "before, all is offered to all")
        for gated in range(1, len(names) + 1):
            newest = names[gated - 1]
            ungated.end(newest)
            world.sidecars.start(newest)
            if gated == 1:
                _limit(world, newest)
            missing = gated < len(names)
            eventually(lambda missing=missing: _is_told(world, names[0]) is missing, "it is told")  # type: ignore[misc]
            _until_passes(world, names[:gated], LIMIT, f"{gated} share the limit")
            with world.held_to(LIMIT, names[:gated]):
                for name in names[gated:]:
                    _until_passes(world, [name], OFFERED, f"{name} is free")
                time.sleep(HELD_S)
        world.sidecars.end(names[-1], signal.SIGTERM)
        ungated.lead(names[-1])
        _until_passes(world, names[-1:], OFFERED, "without its sidecar it is free again")
        _until_passes(world, names[:-1], LIMIT, "the others share the limit again")
        with world.held_to(LIMIT, names[:-1]):
            time.sleep(HELD_S)


def _is_told(world: World, name: str) -> bool:
    """Whether a sidecar says that gates are missing."""
    found = world.get("/quota/v1/conditions", at=name)
    return any(each["condition"] == "WithoutSidecar" for each in found)


def _limit(world: World, name: str) -> None:
    world.put(f"/admin/v2/resourcegroups/{world.group}", {"publishRateInMsgs": LIMIT}, at=name)
    path = f"/admin/v2/namespaces/{world.namespace}/resourcegroup/{world.group}"
    world.http.post(world.sidecars.admin_url(name) + path).raise_for_status()


def _until_passes(world: World, names: Sequence[str], rate: int, what: str) -> None:
    """Wait until these brokers together admit this rate, over two seconds and within a tenth."""
    world.comes_to(
        lambda measured: sum(measured[name] for name in names) == pytest.approx(rate, rel=0.1),
        what,
    )
