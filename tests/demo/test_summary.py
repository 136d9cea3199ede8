"""The summary's fields, and which targets count as missed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.demo import result, summary, targets
from deploy.demo.figures import DemoFigures, evaluate
from deploy.demo.recording import DemoRecording, LimitChange
from tests.demo.scenes import act, recording, samples


def _run() -> DemoRecording:
    acts = [
        act(0, 20, {"a": 5_000, "b": 5_000}),
        act(20, 40, {"a": 5_000}, event="kill", known_s=24),
    ]
    lives = samples("a", [(0, 1_500), (24, 3_000)], 40.4) + samples("b", [(0, 1_500)], 20)
    return DemoRecording(lives, (), acts, [LimitChange(0, 3_000)], killed_s=20.0)


def test_a_run_that_reaches_everything_misses_nothing() -> None:
    """All checks of all acts, and the reclaim."""
    found = targets.checks(evaluate(_run()), targets.GATE)
    assert len(found) == 2 * 5 + 1
    assert [check.what for check in found if not check.met] == []


@pytest.mark.parametrize(
    ("path", "worse", "missed"),
    [
        (targets.GATE, {"settle_s": 2.1}, ["start: settle"]),
        (targets.GATE, {"settle_s": None}, ["start: settle"]),
        (targets.GATE, {"peak": 0.06}, ["start: peak"]),
        (targets.GATE, {"jain": 0.99}, ["start: Jain"]),
        (targets.GATE, {"min_share": 0.9}, ["start: smallest share"]),
        (targets.GATE, {"error": -0.02}, ["start: error of the sum"]),
        (targets.NATIVE, {"settle_s": 3.1}, ["start: settle"]),
        (targets.NATIVE, {"peak": 0.3}, []),
        (targets.NATIVE, {"highest_round": 0.21}, ["start: second of the event"]),
        (targets.NATIVE, {"later_round": 0.06}, ["start: highest second"]),
    ],
)
def test_each_target_of_an_act_is_checked(
    path: targets.Targets, worse: dict[str, float | None], missed: list[str]
) -> None:
    """By name, so that the one who reads knows where to look.

    Natively the seconds that stand back to back are judged: those of the event have a bound of their own,
    and what slides has none.
    """
    good = evaluate(_run())
    first = replace(good.acts[0], **worse)  # type: ignore[arg-type]
    found = targets.checks(replace(good, acts=(first, *good.acts[1:])), path)
    assert [check.what for check in found if not check.met] == missed


@pytest.mark.parametrize("reclaim_s", [None, 5.1])
def test_a_late_reclaim_is_missed(reclaim_s: float | None) -> None:
    """Session timeout and one round, no more."""
    found = targets.checks(replace(evaluate(_run()), reclaim_s=reclaim_s), targets.GATE)
    assert [check.what for check in found if not check.met] == ["reclaim"]


def test_a_missed_target_is_told_with_what_came_out() -> None:
    """Nothing else is told if the machine did not stand still."""
    figures = evaluate(_run())
    late = replace(figures.acts[1], settle_s=None)
    told = result.missed(replace(figures, acts=(figures.acts[0], late)), targets.GATE)
    assert told == ["missed: kill: settle never, target <= 2 s"]


def test_a_target_that_was_missed_while_the_machine_let_processes_wait_says_so_and_stays_missed() -> (
    None
):
    """Of the act itself; an act that reached its targets needs no such word."""
    figures = evaluate(_run())
    acts = [replace(act, waited_s=0.14) for act in figures.acts]
    assert result.missed(replace(figures, acts=tuple(acts)), targets.GATE) == []

    acts[1] = replace(acts[1], settle_s=2.77)
    missed, machine = result.missed(replace(figures, acts=tuple(acts)), targets.GATE)
    assert missed == "missed: kill: settle 2.77 s, target <= 2 s"
    assert machine.startswith("kill: this machine made a process wait for a processor for 0.14 s")


def test_a_wait_of_less_than_a_settled_broker_may_be_off_is_no_reason_for_a_missed_target() -> None:
    """One of 0.03 s holds up 3 % of a second."""
    figures = evaluate(_run())
    acts = (figures.acts[0], replace(figures.acts[1], settle_s=2.77, waited_s=0.03))
    told = result.missed(replace(figures, acts=acts), targets.GATE)
    assert told == ["missed: kill: settle 2.77 s, target <= 2 s"]


def test_the_table_shows_how_long_the_machine_let_a_process_wait() -> None:
    """Beside the figures, act by act; a dash where it did not."""
    figures = evaluate(_run())
    waited = replace(figures.acts[1], waited_s=0.14)
    drawn = result.table("ours", replace(figures, acts=(figures.acts[0], waited)), targets.GATE)
    assert list(drawn.columns[-1].cells) == ["-", "0.14 s", ""]


def test_the_summary_has_the_agreed_fields_and_null_for_never(tmp_path: Path) -> None:
    """The recording that it was computed from lies beside it."""
    rates = {"a": [(0.0, 3_100.0)], "b": [(0.0, 0.0)]}
    run = recording(rates, [act(0, 20, {"a": 5_000, "b": 5_000})])
    figures: DemoFigures = evaluate(run)
    file = summary.write(summary.summary(figures), run, tmp_path / "out", "-peer")
    written = json.loads(file.read_text())
    assert written == {
        "limit": 3_000,
        "aggregate_mean": pytest.approx(3_100, abs=1),
        "aggregate_error": pytest.approx(0.0333, abs=1e-3),
        "peak_overshoot_1s": pytest.approx(0.0333, abs=1e-3),
        "highest_second": {"start": pytest.approx(0.0333, abs=1e-3)},
        "jain": 0.5,
        "min_share": 0.0,
        "settle_seconds": {"start": None},
        "reclaim_seconds": None,
        "waited_seconds": {"start": 0.0},
        "dispatch": None,
        "source": "broker msgInCounter",
    }
    raw = json.loads((tmp_path / "out" / "counters-peer.json").read_text())
    assert len(raw["samples"]) == len(run.samples)
