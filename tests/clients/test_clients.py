"""Stock clients do through strict gates what they do without: a sample of `make clients`."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.clients.harness import NamespaceMaker, try_client
from tests.clients.releases import SAMPLE, Release, all_releases

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

#: They need transactions (a client of 4.2.4 waits for them for ever) or batch indexes at the brokers.
_NOT_HERE = ("-transactions", "-batch_index")
_SAMPLED = [each for each in all_releases() if each.name in SAMPLE]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", _SAMPLED, ids=lambda release: release.name)
def test_a_stock_client_does_what_it_did(
    cluster: Cluster, sidecars: Sidecars, release: Release, tmp_path: Path
) -> None:
    """Everything is received, nothing is refused, nothing that was acknowledged is lost."""
    launch, namespaces = release.launch(), NamespaceMaker(cluster)
    outcomes = try_client(
        launch, sidecars.service_url, namespaces, tmp_path / "client.log", _NOT_HERE
    )
    assert len(outcomes) > 20
    failed = [each for each in outcomes if each.failed]
    assert not failed, "\n".join(f"{each.scene}: {each.why}" for each in failed)
