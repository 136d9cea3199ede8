"""No certificate is ever broken, and the watch over them sees it when one would be.

Every run of the simulator is watched; what is here shows that the watch looks, and that it has teeth.
"""

from __future__ import annotations

import pytest

from coordinator.core.model import Usage
from coordinator.core.raising import Raises
from coordinator.simulation.experiment import perform
from coordinator.simulation.invariants import PromiseBroken
from coordinator.simulation.stage import Parameters
from coordinator.simulation.trials import run_many
from tests.simulation.test_chaos import chaos


@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_certificates_are_read_all_the_time_and_mostly_exact(policy: str) -> None:
    """Tens of times a second; with demands that never rest, most of them say C and no more."""
    stage, _ = perform("S9", Parameters(policy=policy))
    watch = stage.world.watch

    assert watch.asked > 20 * stage.seconds
    assert watch.said > 0.9 * watch.asked
    assert watch.exact > 0.7 * watch.said


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["strict", "eager"])
@pytest.mark.parametrize("seed", range(4))
def test_no_chaos_breaks_a_certificate(seed: int, policy: str) -> None:
    """Losses, delays, splits, cuts, pauses, restarts and other limits; balanced in test_chaos.

    And nobody was taken for a liar.
    """
    stage = chaos(seed, policy)
    stage.world.run()

    assert stage.world.watch.said > 5_000
    assert not any(host.state.suspects.all() for host in stage.world.hosts.values())


def test_a_raise_that_waits_for_no_answer_breaks_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then somebody holds more than the others know of."""
    monkeypatch.setattr(Raises, "known_to", lambda *_: 10**12)

    with pytest.raises(PromiseBroken, match=r"seed 0, .* certified to be at most"):
        perform("S11", Parameters())


def test_who_does_not_count_ceilings_breaks_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was announced may be in force before it is told to be."""
    monkeypatch.setattr(Usage, "ceiling_of", lambda *_: None)

    with pytest.raises(PromiseBroken, match="certified to be at most"):
        run_many("S14", Parameters(), seeds=3)
