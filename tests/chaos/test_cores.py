"""The checker finds broken invariants in the words of sidecars that check their own cores."""

from __future__ import annotations

from dataclasses import replace

from deploy.chaos.checker import cores
from tests.chaos.scenes import history, sweeps


def test_cores_without_contradictions_are_fine() -> None:
    """Nothing was said in any sweep."""
    assert not list(cores.check(history()))


def test_a_broken_invariant_is_found_once_however_often_it_is_said() -> None:
    """By sidecar, with the statement and its figures."""
    broken = "InvariantBroken: A raise waits for members only (waits_for b9)"
    said = [
        {
            name: replace(word, broken=broken if name == "broker-2" else "")
            for name, word in each.items()
        }
        for each in sweeps()
    ]

    (finding,) = cores.check(history(words=said))
    assert finding.rule == "invariants"
    assert finding.text == f"The core of broker-2 contradicts itself: {broken}"
