"""Sidecars beside the real brokers, and real clients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import httpx
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.integration.native_world import Native, opened
from tests.integration.world import TENANT, World, make_world

_numbers = itertools.count()


@pytest.fixture
def world(cluster: Cluster, sidecars: Sidecars) -> Iterator[World]:
    """A namespace of its own for the test, with one topic on every broker."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield make_world(cluster, sidecars, http, f"{TENANT}/n{next(_numbers)}")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """Three brokers with the two lines in broker.conf, and their sidecars."""
    with opened(tmp_path_factory.mktemp("native")) as found:
        yield found
