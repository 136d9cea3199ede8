"""The network loses, delays, doubles and reorders exactly as it is told to."""

from __future__ import annotations

import random

import pytest

from coordinator.simulation.network import Network, NetworkConditions

SECOND_NS = 1_000_000_000


def network(**conditions: float) -> Network:
    """A network with a fixed seed; times are whole numbers."""
    chosen = NetworkConditions()
    for name, value in conditions.items():
        setattr(chosen, name, value)
    return Network(random.Random(7), chosen)


def test_everything_arrives_once_and_in_order() -> None:
    """Without faults each report arrives once, after the delay, and none overtakes another."""
    calm = network()
    arrivals = [calm.arrivals("a", "b", at_ns) for at_ns in range(0, SECOND_NS, 1_000_000)]

    assert all(len(arrival) == 1 for arrival in arrivals)
    assert arrivals == sorted(arrivals)
    assert all(
        arrival[0] >= sent_ns + 2_000_000
        for sent_ns, arrival in zip(range(0, SECOND_NS, 1_000_000), arrivals, strict=True)
    )


@pytest.mark.parametrize("burst", [1, 5])
@pytest.mark.parametrize("loss", [0.01, 0.1, 0.3, 1.0])
def test_the_share_of_losses_is_as_told(loss: float, burst: int) -> None:
    """For runs of any length the share is within a fifth, over 40,000 reports."""
    lossy = network(loss=loss, burst=burst)
    lost = sum(not lossy.arrivals("a", "b", at_ns) for at_ns in range(40_000))

    assert lost / 40_000 == pytest.approx(loss, rel=0.2)


def test_losses_come_in_runs() -> None:
    """With a burst of five every run of losses is a multiple of five long."""
    lossy = network(loss=0.1, burst=5)
    passed = [bool(lossy.arrivals("a", "b", at_ns)) for at_ns in range(5_000)]
    runs = "".join("." if ok else "x" for ok in passed).strip("x").split(".")

    assert {len(run) % 5 for run in runs} == {0}
    assert any(runs)


def test_links_lose_apart() -> None:
    """A run of losses towards one reader takes nothing from another."""
    lossy = network(loss=0.5)
    both = [(lossy.arrivals("a", "b", t), lossy.arrivals("a", "c", t)) for t in range(200)]

    assert any(bool(to_b) != bool(to_c) for to_b, to_c in both)


def test_a_cut_has_a_direction() -> None:
    """Reports from a to b are lost, reports from b to a arrive; healing restores both."""
    asymmetric = network()
    asymmetric.cut("a", "b")

    assert not asymmetric.arrivals("a", "b", 0)
    assert asymmetric.arrivals("b", "a", 0)
    asymmetric.heal()
    assert asymmetric.arrivals("a", "b", 0)


def test_a_partition_separates_sides_only() -> None:
    """Nothing passes between the sides, everything within them."""
    split = network()
    split.partition(["a", "b"], ["c"])

    assert split.arrivals("a", "b", 0)
    assert not split.arrivals("a", "c", 0)
    assert not split.arrivals("c", "b", 0)


def test_duplicates_and_overtaking() -> None:
    """A share arrives twice, and with reordering later ones overtake earlier ones."""
    messy = network(duplicate=0.2, reorder=0.2)
    arrivals = [messy.arrivals("a", "b", at_ns) for at_ns in range(0, 100 * SECOND_NS, 10**8)]
    firsts = [arrival[0] for arrival in arrivals]

    assert sum(len(arrival) == 2 for arrival in arrivals) == pytest.approx(200, rel=0.3)
    assert firsts != sorted(firsts)
