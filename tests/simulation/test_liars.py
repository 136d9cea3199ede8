"""A liar takes nothing from the other sidecars, and none of them is taken for one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from coordinator.core.model import GroupUsage, UsageReport
from coordinator.core.reports.plausibility import CAPPED_AT
from coordinator.simulation.experiment import perform
from coordinator.simulation.recording import RunRecording
from coordinator.simulation.stage import GROUP, WARM_UP_S, Parameters, Stage
from tests.simulation.runs import played


def least(recording: RunRecording, brokers: list[str], seconds: range) -> int:
    """Return the least that one of these brokers admitted in one of these seconds."""
    tracks = recording.group(GROUP).tracks
    return min(tracks[name].admitted[second] for name in brokers for second in seconds)


@pytest.mark.verify
@pytest.mark.parametrize("policy", ["balanced", "strict"])
@pytest.mark.parametrize("seed", range(2))
def test_a_liar_takes_no_more_than_its_part(policy: str, seed: int) -> None:
    """S24 under max-min: it says ten times the truth, then nothing: the others keep a fifth each."""
    stage, recording = perform("S24", Parameters(policy=policy, seed=seed))

    *honest, _ = stage.names
    fair = stage.limit // stage.parameters.brokers
    assert least(recording, honest, range(WARM_UP_S + 2, stage.seconds)) >= 0.98 * fair
    # What the liar really wants is half of its part: with the truth back, the others have the rest.
    assert (
        least(recording, honest, range(85, stage.seconds)) >= 0.98 * (stage.limit - fair // 2) / 4
    )


def hoarding(report: UsageReport, *, limit: int) -> UsageReport:
    """A report that says that all of the limit is in force at its sender."""

    def all_of_it(entry: GroupUsage) -> GroupUsage:
        return replace(
            entry,
            usages={of: replace(usage, messages_limit=limit) for of, usage in entry.usages.items()},
        )

    return replace(report, groups=tuple(map(all_of_it, report.groups)))


@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_a_sidecar_that_claims_to_hold_the_whole_limit_stops_no_other_for_long(policy: str) -> None:
    """All demand moves to one broker: it gets all but an equal part of the hoarder when that is capped.

    Under strict it gets all of it at once.
    """
    stage = Stage(Parameters(policy=policy, seed=3), seconds=80)
    busy, *others, liar = stage.names
    stage.start(stage.all_of_it())
    lie = partial(hoarding, limit=stage.limit)
    stage.at(20, lambda: setattr(stage.world.hosts[liar], "distort", lie))
    stage.at(25, *(partial(stage.want, name, 20) for name in (*others, liar)))

    recording = stage.world.run()

    waited, part = (CAPPED_AT + 10, 0.7) if policy == "balanced" else (5, 0.9)
    assert least(recording, [busy], range(25 + waited, 80)) >= part * stage.limit
    expected = {liar} if policy == "balanced" else set()
    for name in (busy, *others):
        assert stage.world.hosts[name].state.plausibility.times_capped.keys() == expected


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["S7", "S9", "S14", "S15", "S16", "S17", "S18", "S22", "S23"])
def test_no_scenario_without_a_liar_caps_or_drops_a_report(scenario: str) -> None:
    """Dependencies lost, rotation, loss, delay, mixed intervals, partitions, pauses, PIP-82 brokers."""
    assert not played(scenario, Parameters()).distrusted
