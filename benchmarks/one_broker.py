"""A cluster of one real broker, for as long as a benchmark needs it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.topics import Topics


@contextmanager
def one_broker(*namespaces: str, bundles: int = 4, **options: Any) -> Iterator[Cluster]:
    """A cluster with these namespaces; there is room for other files beside its directory.

    Args:
        namespaces: as tenant/namespace; the tenants are made, too.
        bundles: of each.
        options: those of `ClusterOptions`.
    """
    with tempfile.TemporaryDirectory(prefix="pulsar-quota-bench-") as place:
        chosen = ClusterOptions(state_dir=Path(place) / "cluster", brokers=1, **options)
        with Cluster.start(chosen) as cluster:
            topics = Topics(cluster.brokers)
            for namespace in namespaces:
                topics.create_tenant(namespace.partition("/")[0])
                topics.create_namespace(namespace, bundles)
            yield cluster
