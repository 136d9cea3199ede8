"""Brokers of 4.0.7, the oldest release that is tried: a sample, on a small cluster of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.release_world import ReleaseWorld, world_of
from tests.clients.sample import SAMPLE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.own_cluster,
    pytest.mark.timeout(300),
    pytest.mark.verify,
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseWorld]:
    """A cluster of two brokers with sidecars."""
    with world_of("4.0.7", tmp_path_factory.mktemp("old")) as started:
        yield started


@pytest.mark.parametrize("holds", SAMPLE, ids=lambda check: check.__name__)
def test_what_every_release_does(
    world: ReleaseWorld, holds: Callable[[ReleaseWorld], None]
) -> None:
    """A sample: limits of classic clients on publishing and dispatch, and their explanation."""
    holds(world)
