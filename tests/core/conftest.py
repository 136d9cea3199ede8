"""Several cores together, at their beginning."""

from collections.abc import Iterator

import pytest

from tests.core.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """An empty cluster with a limit of 3,000 messages per second; every core is checked afterwards."""
    cluster = Cluster(limit=3000)
    yield cluster
    cluster.validate()
