"""A sample of the random sequences of `make fuzz`."""

from __future__ import annotations

import pytest

from deploy.local.cluster import Cluster
from tests.attacks.sequences import run

pytestmark = pytest.mark.cluster

_CASES = 12
_SEED = 1
"""One seed, so that the proof does not depend on luck; `make fuzz` draws others."""


async def test_gate_and_broker_come_to_one_view(cluster: Cluster) -> None:
    """With any use of colliding ids, both know the same participants and counts."""
    ends, disagreements = await run(cluster, _CASES, _SEED)
    assert not disagreements, disagreements[0]
    assert ends.total() == _CASES
