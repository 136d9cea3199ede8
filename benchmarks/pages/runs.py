"""The simulations for the pages, kept as one file of JSON per subject.

A scenario's file holds our law under each policy, over a few seeds, and some hold the other laws as they
act where they come from: at once (``eager``), with one seed. A story's file holds runs second by second:
a step of demand under six laws, a flash crowd with losses and a crash under each policy. The rest are
sweeps: settling under loss, rotation under delay, messages and bytes at once.

Only what a table or a chart shows is kept, a row or a series to a line, so that a file is small and a
difference can be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.sim import OURS, trials
from coordinator.core.model import Dimension, Rates
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.experiment import measure, perform, series_of
from coordinator.simulation.recording import GroupRecord
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import GROUP, Parameters
from coordinator.simulation.traffic import Constant
from coordinator.simulation.trials import Summary, Trial, run_all
from coordinator.simulation.world import World

DATA: Final = Path(__file__).parents[2] / "docs" / "figures" / "data"

SEEDS: Final = 2
COMPARED: Final = (
    "S1", "S2", "S3", "S4", "S5", "S6", "S9", "S10", "S11", "S12", "S13", "S22",
)  # fmt: skip
"""Where the laws are compared: what clients want changes, or who takes part, and little else."""
LONG: Final = frozenset({"S20", "S21"})
"""These take long: one seed."""
GROUPS: Final = 100
"""In a scenario of many."""
LOSSES: Final = (0.0, 0.1, 0.3)
DELAYS: Final = (0, 1, 2, 3)
MESSAGE_SIZES: Final = (100, 1_000, 20_000)
JOINT_DIMENSIONS: Final = (Dimension.PUBLISH_MESSAGES, Dimension.PUBLISH_BYTES)
JOINT_LIMITS: Final = Rates(publish_messages=3_000, publish_bytes=6_000_000)

STEP_LAWS: Final = (OURS, "pulsar", "tdmq", "rateguard", "grd", "doorman-fair")
CROWD: Final = Parameters(loss=0.3, delay_rounds=2, seed=3)

Json = dict[str, Any]

_LONGEST_ROW = 1_000


def scenario(name: str, seeds: int) -> Json:
    """Ours under every policy, the others as they act."""
    chosen = Trial(name, Parameters(SCENARIOS[name].brokers, groups=GROUPS), 1)
    ours = trials(chosen if name in LONG else replace(chosen, seeds=seeds), laws=())
    others = trials(chosen)[len(ours) :] if name in COMPARED else []
    return {
        "title": SCENARIOS[name].title,
        "description": SCENARIOS[name].description,
        "rows": _rows([*ours, *others]),
    }


def step(seeds: int) -> Json:  # noqa: ARG001  # every subject has the same signature
    """A broker's demand steps from 100 to 900 and back, under six laws."""
    chosen = {law: Parameters(law=law, policy="eager") for law in STEP_LAWS}
    chosen[OURS] = replace(chosen[OURS], policy="balanced")
    return {"runs": [_story("S3", parameters, 10, 80) for parameters in chosen.values()]}


def crowd(seeds: int) -> Json:  # noqa: ARG001  # every subject has the same signature
    """A flash crowd while reports are lost and late, under each policy."""
    return {"runs": [_story("S10", replace(CROWD, policy=of), 40, 90) for of in POLICIES]}


def crash(seeds: int) -> Json:  # noqa: ARG001  # every subject has the same signature
    """The busiest broker is killed, under each policy."""
    return {"runs": [_story("S6", Parameters(policy=of), 15, 40) for of in POLICIES]}


def loss(seeds: int) -> Json:
    """The rounds that a skewed start takes to settle while reports are lost: every seed's number."""
    rows = []
    for share in LOSSES:
        for policy in POLICIES:
            found = [
                rounds
                for seed in range(2 * seeds)
                for figures in measure(
                    *perform("S1", Parameters(policy=policy, loss=share, seed=seed))
                )
                for rounds in figures.settle_rounds
            ]
            rows.append({"loss": share, "policy": policy, "settle_rounds": found})
    return {"rows": rows}


def rotation(seeds: int) -> Json:
    """The cost of bursts that go round, by the delay of reports."""
    chosen = [
        Trial("S9", Parameters(policy=policy, delay_rounds=float(delay)), -(-seeds // 3))
        for policy in POLICIES
        for delay in DELAYS
    ]
    return {"rows": _rows(chosen)}


def joint(seeds: int) -> Json:  # noqa: ARG001  # every subject has the same signature
    """Messages and bytes limited at once, small and large messages: split in one, and one by one."""
    runs = []
    for law in (OURS, "doorman-fair"):
        world = World(seed=1, seconds=60)
        world.define(GROUP, JOINT_LIMITS, law=law, policy="balanced")
        for size in MESSAGE_SIZES:
            world.start(f"{size} B", {GROUP: Constant(10_000, message_bytes=size)})
        recording = world.run()
        runs += [
            {"law": law, "dimension": dimension.value}
            | _seconds(recording.group(GROUP, dimension), 0, 60)
            for dimension in JOINT_DIMENSIONS
        ]
    return {"runs": runs}


SUBJECTS: Final[Mapping[str, Callable[[int], Json]]] = {
    "step": step,
    "crowd": crowd,
    "crash": crash,
    "loss": loss,
    "rotation": rotation,
    "joint": joint,
    **{name: partial(scenario, name) for name in SCENARIOS},
}
"""The function that makes each file of data with a number of seeds, by its name without ``.json``."""


def write(name: str, seeds: int) -> None:
    """Simulate a subject and write its file."""
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / f"{name}.json").write_text(as_text(SUBJECTS[name](seeds)) + "\n", encoding="utf-8")


def as_text(value: Any, margin: str = "") -> str:
    """JSON with every row, and every series, on a line of its own."""
    whole = json.dumps(value, ensure_ascii=False)
    inner = margin + " "
    match value:
        case dict() if len(whole) > _LONGEST_ROW:
            entries = [f"{json.dumps(key)}: {as_text(each, inner)}" for key, each in value.items()]
        case [dict(), *_]:
            entries = [as_text(each, inner) for each in value]
        case _:
            return whole
    opening, closing = whole[0], whole[-1]
    return f"{opening}\n{inner}" + f",\n{inner}".join(entries) + f"\n{margin}{closing}"


def read(name: str) -> Json:
    """Return the contents of a subject's file.

    Raises:
        FileNotFoundError: it was never simulated; ``make figures`` does that.
    """
    found: Json = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return found


def summaries(name: str) -> list[Summary]:
    """The rows of a scenario's file, or of the rotation's."""
    return [Summary(**row) for row in read(name)["rows"]]


def _rows(trials: Sequence[Trial]) -> list[Json]:
    return [asdict(summary) for summary in run_all(trials, _processors())]


def _story(scenario: str, parameters: Parameters, begin: int, end: int) -> Json:
    stage, recording = perform(scenario, parameters)
    (record, *_) = recording.records.values()
    return {
        "law": parameters.law,
        "policy": parameters.policy,
        "events": [event for event in stage.events if begin <= event < end],
        **_seconds(record, begin, end),
    }


def _seconds(record: GroupRecord, begin: int, end: int) -> Json:
    tracks = sorted(record.tracks.items())
    in_force = [sum(held) for held in zip(*(track.limits for _, track in tracks), strict=True)]
    return {
        "begin": begin,
        "limit": list(series_of(record).limits[begin:end]),
        "sum_of_limits": in_force[begin:end],
        "admitted": {name: list(track.admitted[begin:end]) for name, track in tracks},
    }


def _processors() -> int:
    return os.cpu_count() or 1
