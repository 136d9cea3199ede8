"""Sidecars beside the real brokers, and real clients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import httpx
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.integration.world import TENANT, World, make_world

_numbers = itertools.count()


@pytest.fixture
def world(cluster: Cluster, sidecars: Sidecars) -> Iterator[World]:
    """A namespace of its own for the test, with one topic on every broker."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield make_world(cluster, sidecars, http, f"{TENANT}/n{next(_numbers)}")
