"""No certificate is ever broken, and the watch over them sees it when one would be.

Every run of the simulator is watched; what is here shows that the watch looks, and that it has teeth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest

from coordinator.core.certificate.certifier import Certifier
from coordinator.core.certificate.statement import Holder
from coordinator.core.escrow.books import limit_of
from coordinator.core.model import Usage, UsageReport
from coordinator.core.transfer.raise_protocol import Raises
from coordinator.simulation.experiment import perform
from coordinator.simulation.invariants import PromiseBroken
from coordinator.simulation.stage import Parameters, Stage
from tests.simulation.runs import distrusted, run_many
from tests.simulation.test_chaos import SECOND_NS, chaos


@pytest.mark.verify
@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_certificates_are_read_all_the_time_and_mostly_exact(policy: str) -> None:
    """Tens of times a second; with demands that never rest, most of them say C and no more."""
    stage, _ = perform("S9", Parameters(policy=policy))
    watch = stage.world.watch

    assert watch.asked >= 20 * stage.seconds
    assert watch.said > 0.9 * watch.asked
    assert watch.exact > 0.7 * watch.said


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("policy", ["strict", "eager"])
@pytest.mark.parametrize("seed", range(7))
def test_no_chaos_breaks_a_certificate(seed: int, policy: str) -> None:
    """Losses, delays, splits, cuts, pauses, restarts and other limits; balanced in test_chaos.

    No broker is taken for a liar.
    """
    stage = chaos(seed, policy)
    stage.world.run()

    assert stage.world.watch.said > 5_000
    assert not distrusted(stage)


def test_a_raise_that_waits_for_no_answer_breaks_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One broker then holds more than the others know of."""
    monkeypatch.setattr(Raises, "known_to", lambda *_: 10**12)

    with pytest.raises(PromiseBroken, match=r"seed 0, .* certified to be at most"):
        perform("S11", Parameters())


def test_who_does_not_count_ceilings_breaks_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An announced limit may be in force before the gate is told."""
    monkeypatch.setattr(Usage, "ceiling_of", lambda *_: None)

    with pytest.raises(PromiseBroken, match="certified to be at most"):
        run_many("S14", Parameters(), seeds=3)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_process_that_begins_in_place_of_a_named_one_is_stated_beside_the_sum(seed: int) -> None:
    """It knows no members yet, so its reserve is larger than that of the idle one that was killed."""
    stage = Stage(Parameters(seed=seed), seconds=22)
    stage.start([*stage.all_of_it()[1:], None])
    stage.at(20, partial(stage.world.restart, stage.names[-1], SECOND_NS // 10))

    stage.world.run()

    assert stage.world.watch.said > 100


def lowered_while_one_pauses() -> Stage:
    """The limit goes down to a tenth while the busy broker stands still with nearly all of it."""
    stage = Stage(Parameters(brokers=2), seconds=25)
    busy, _ = stage.names
    stage.start([stage.limit, 10])
    stage.at(20, lambda: stage.world.hosts[busy].pause(SECOND_NS))
    stage.at(20.1, partial(stage.define, stage.limit // 10))
    return stage


def deaf_for_long() -> Stage:
    """A small broker hears no other for more than twice ``hold``, while the others hear it."""
    stage = Stage(Parameters(brokers=3), seconds=95)
    small, *others = stage.names
    stage.start([10, stage.limit, stage.limit])
    for other in others:
        stage.at(20, partial(stage.world.network.cut, other, small))
    return stage


def unheard_for_long() -> Stage:
    """There is room for a broker that no other hears: after ``hold`` it waits for no answer."""
    stage = Stage(Parameters(brokers=2), seconds=65)
    quiet, other = stage.names
    stage.start([10, stage.limit])
    stage.at(20, partial(stage.world.network.cut, quiet, other))
    stage.at(25, partial(stage.want, other, 10))
    return stage


def cut_off_with_its_part() -> Stage:
    """A broker loses its ZooKeeper session and goes on with what it held, as its group says."""
    stage = Stage(Parameters(brokers=3), seconds=40)
    cut, *_ = stage.names
    stage.start(stage.all_of_it())
    stage.at(20, lambda: stage.world.zookeeper.cut(stage.world.hosts[cut].session))
    return stage


def stood_still_with_an_answer_on_its_way() -> Stage:
    """A broker stops once it has announced a raise; when it goes on, its part is the other's.

    The answer from before comes first then, and it raises itself: it is no member and does not know it.
    """
    stage = Stage(Parameters(brokers=2), seconds=35)
    slow, _ = stage.names
    stage.start([10, stage.limit])
    paused: list[str] = []

    def stop_once(sender: str, report: UsageReport) -> None:
        announces = any(
            usage.messages_ceiling is not None
            for entry in report.groups
            for usage in entry.usages.values()
        )
        if sender == slow and announces and not paused:
            paused.append(sender)
            stage.world.schedule.after(
                1_000_000, lambda: stage.world.hosts[slow].pause(8 * SECOND_NS)
            )

    def want_all() -> None:
        stage.world.listeners.append(stop_once)
        stage.want(slow, stage.limit)

    stage.at(20, want_all)
    return stage


def _forget(*_: object) -> None:
    pass


def _hearing_all(take: Callable[[Certifier, UsageReport], None]) -> Callable[..., None]:
    return lambda self, report: take(self, replace(report, bus_silent=False))


def _ageless(holder: Callable[..., Holder]) -> Callable[..., Holder]:
    return lambda *known, asked: holder(*known[:-1], replace(known[-1], now_ns=0), asked=asked)


PLANTED: Mapping[str, tuple[Callable[[], Stage], Callable[[pytest.MonkeyPatch], None]]] = {
    "forgets older definitions": (
        lowered_while_one_pauses,
        lambda patch: patch.setattr(Certifier, "set_groups", _forget),
    ),
    "forgets who moves to C/N in the end": (
        deaf_for_long,
        lambda patch: patch.setattr(Certifier, "take", _hearing_all(Certifier.take)),
    ),
    "believes what it heard long ago": (
        unheard_for_long,
        lambda patch: patch.setattr(Certifier, "_holder", _ageless(Certifier._holder)),
    ),
    "takes no notice that it stood still": (
        stood_still_with_an_answer_on_its_way,
        lambda patch: patch.setattr(Certifier, "stood_still", lambda *_: False),
    ),
    "forgets who left without a word": (
        cut_off_with_its_part,
        lambda patch: patch.setattr(Certifier, "_remember", _forget),
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_mistake_that_is_planted_breaks_a_certificate(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same story passes without it: what is forgotten there is what the certificate needs."""
    story, plant = PLANTED[mistake]
    stage = story()
    stage.world.run()
    assert stage.world.watch.said > 0
    plant(monkeypatch)

    with pytest.raises(PromiseBroken, match="certified to be at most"):
        story().world.run()


def test_a_strict_broker_that_keeps_one_message_too_many_breaks_the_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At any instant, to the message."""
    monkeypatch.setattr(
        "coordinator.core.escrow.quota.limit_of", lambda parts, limit: limit_of(parts, limit) + 1
    )

    with pytest.raises(PromiseBroken, match="the limits in force add up to 1,001 of 1,000"):
        perform("S3", Parameters(policy="strict"))
