"""Sidecars beside the real brokers, and real clients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import httpx
import pulsar
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.integration.world import TENANT, World, make_world

_numbers = itertools.count()


@pytest.fixture(scope="session")
def sidecars(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecars]:
    """A sidecar beside every broker."""
    with Sidecars(cluster, tmp_path_factory.mktemp("sidecars")) as sidecars:
        sidecars.start()
        yield sidecars


@pytest.fixture
def bare(cluster: Cluster, sidecars: Sidecars) -> Iterator[Cluster]:
    """The shared cluster without its sidecars, for a test that needs their ports."""
    sidecars.stop()
    yield cluster
    sidecars.start()


@pytest.fixture
def world(cluster: Cluster, sidecars: Sidecars) -> Iterator[World]:
    """A namespace of its own for the test, with one topic on every broker."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield make_world(cluster, sidecars, http, f"{TENANT}/n{next(_numbers)}")


@pytest.fixture
def connect() -> Iterator[Callable[[str], pulsar.Client]]:
    """Makes clients, and closes them after the test."""
    clients: list[pulsar.Client] = []

    def make(service_url: str) -> pulsar.Client:
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        clients.append(pulsar.Client(service_url, logger=logger))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
