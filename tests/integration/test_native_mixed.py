"""Some brokers have a gate and the others none: one limit for all of them, on real brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars, configuration, write_configuration
from tests.integration.native_world import LIMIT, Native, opened

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

GATED = "broker-1"
_MARGIN = 0.2
_OFFERED = 2_000
"""Per second and broker: more than any part, and little more, as the machine has the clients, too."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """Three brokers; the first one has a gate and its own limiter behind it, the others that alone."""
    settings = {"native_margin": _MARGIN}

    def give_a_gate(cluster: Cluster, sidecars: Sidecars) -> None:
        broker = next(each for each in cluster.brokers if each.name == GATED)
        both = settings | {"enforcement_path": "gate+native"}
        keys = configuration(broker, cluster, sidecars.bus_topics, both)
        write_configuration(sidecars.configuration_file(GATED), keys)

    with opened(tmp_path_factory.mktemp("mixed"), settings, before=give_a_gate) as world:
        world.gated = frozenset({GATED})
        yield world


def test_a_gate_and_brokers_without_one_share_a_limit(mixed: Native) -> None:
    """Each broker has its third, by gate or by its own limiter, and the sum is the limit."""
    fair = dict.fromkeys(mixed.by_broker, LIMIT / 3)
    with mixed.load(dict.fromkeys(mixed.by_broker, _OFFERED)):
        mixed.comes_to(fair, within=0.05)
        shares = mixed.rates(20.0)
    assert min(shares.values()) >= 0.95 * LIMIT / 3, shares
    assert sum(shares.values()) <= 1.02 * LIMIT, shares


def test_clients_past_the_gate_find_the_brokers_own_limiter(mixed: Native) -> None:
    """They pass no more than the margin above what the gate's clients may."""
    with mixed.load({GATED: 2 * LIMIT}, past_gates=True):
        past = mixed.rates(15.0)
    assert past[GATED] <= 1.05 * (1 + _MARGIN) * LIMIT, past
