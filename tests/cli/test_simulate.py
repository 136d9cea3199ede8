"""``pulsar-quota simulate``: figures for machines, a table for people, and clear refusals."""

from __future__ import annotations

import json
import re

import pytest

from coordinator.core.allocation.laws import ALL_LAWS
from coordinator.core.model import Dimension
from coordinator.core.transfer.policies import POLICIES
from tests.cli.conftest import Run

FIELDS = [
    "scenario", "law", "policy", "brokers", "loss", "delay", "seeds", "settle_rounds",
    "peak_overshoot", "max_sum_limits", "utilisation", "jain", "min_share", "time_over_1_05",
]  # fmt: skip
"""The fields of `simulate --json`, which scripts read."""

MORE_FIELDS = [
    "dimension", "aggregate_error", "time_over_1_01", "peak_overshoot_10s", "overshoot_volume",
    "mean_when_over", "regret",
    "oscillation", "changes_per_minute", "starvation_seconds", "reclaim_seconds",
    "control_bytes_out", "control_bytes_in", "bucket_peaks", "latency_regret_ms",
]  # fmt: skip
"""The other metrics of a run."""


def test_json_has_exactly_the_documented_fields(run: Run) -> None:
    """One object per scenario, with the fields in this order."""
    words = "--scenario S11 --brokers 2 --seeds 2 --jobs 1 --json"
    shown = run("simulate", *words.split())

    (summary,) = json.loads(shown.stdout)
    assert shown.exit_code == 0
    assert list(summary) == [*FIELDS, *MORE_FIELDS]
    assert list(summary["settle_rounds"]) == ["median", "max"]
    assert (summary["scenario"], summary["law"], summary["policy"]) == (
        "S11",
        "max-min",
        "balanced",
    )
    assert (summary["brokers"], summary["seeds"]) == (2, 2)


def test_chosen_parameters_are_run_and_said(run: Run) -> None:
    """Brokers, loss, delay, law and policy."""
    words = "--scenario S11 --brokers 3 --loss 0.1 --delay 0.5 --law static --policy eager"
    chosen = f"{words} --seeds 1 --jobs 1 --json"

    (summary,) = json.loads(run("simulate", *chosen.split()).stdout)

    assert [summary[name] for name in FIELDS[1:7]] == ["static", "eager", 3, 0.1, 0.5, 1]


@pytest.mark.verify
def test_all_laws_and_policies_are_run(run: Run) -> None:
    """Every law, those of other limiters too, with every policy, in the order of the tables."""
    words = "--scenario S11 --law all --policy all --brokers 2 --seeds 1 --jobs 1 --json"

    summaries = json.loads(run("simulate", *words.split()).stdout)

    run_with = [(summary["law"], summary["policy"]) for summary in summaries]
    assert run_with == [(law, policy) for law in ALL_LAWS for policy in POLICIES]


def test_processes_change_no_figure(run: Run) -> None:
    """Two runs at a time give what one after the other gives."""
    chosen = "--scenario S11 --brokers 2 --loss 0.3 --seeds 2 --json --jobs"
    words = ("simulate", *chosen.split())

    assert run(*words, "2").stdout == run(*words, "1").stdout


def test_a_limit_in_bytes_can_be_run(run: Run) -> None:
    """100 MB/s of messages of 1 kB settle as 1,000 messages per second do."""
    words = "--scenario S1 --brokers 2 --seeds 1 --jobs 1 --dimension publishRateInBytes --json"

    (summary,) = json.loads(run("simulate", *words.split()).stdout)

    assert summary["dimension"] == "publishRateInBytes"
    assert summary["settle_rounds"]["max"] <= 2


def test_a_crash_says_how_soon_the_part_was_back(run: Run) -> None:
    """A session of 4 s that was heard of within 2 s, and a round; no crash has nothing to say."""
    chosen = "--brokers 3 --seeds 1 --jobs 1 --json --scenario"
    words = ("simulate", *chosen.split())

    (crash,) = json.loads(run(*words, "S6").stdout)
    (start,) = json.loads(run(*words, "S1").stdout)

    assert 2 <= crash["reclaim_seconds"]["max"] <= 5
    assert start["reclaim_seconds"] == {"median": None, "max": None}
    assert start["control_bytes_in"] > start["control_bytes_out"] > 0


def test_a_scenarios_own_loss_is_said(run: Run) -> None:
    """Without an option the scenario's own loss applies, and the output names it."""
    words = "--scenario S14 --brokers 2 --seeds 1 --jobs 1 --json"

    (summary,) = json.loads(run("simulate", *words.split()).stdout)

    assert summary["loss"] == 0.3


def test_the_same_words_give_the_same_figures(run: Run) -> None:
    """A seed replays a run."""
    chosen = "--scenario S11 --brokers 2 --loss 0.3 --seeds 1 --jobs 1 --json"
    words = ("simulate", *chosen.split())

    assert run(*words).stdout == run(*words).stdout


def test_people_get_a_table(run: Run) -> None:
    """Two lines, each with the title; a demand that never rests has nothing to settle."""
    words = "--scenario S9 --brokers 2 --seeds 1 --jobs 1"

    shown = run("simulate", *words.split(), columns=240)

    lines = [line for line in shown.stdout.splitlines() if line.strip().startswith("S9")]
    assert ["on-off and rotating bursts" in line for line in lines] == [True, True]
    assert re.search(r" - +- ", lines[0])


@pytest.mark.parametrize(
    ("words", "valid"),
    [
        (("--scenario", "S99"), ["S1", "S25", "all"]),
        (("--law", "fairest"), list(ALL_LAWS)),
        (("--policy", "hasty"), list(POLICIES)),
        (("--dimension", "bytes"), [dimension.value for dimension in Dimension]),
    ],
)
def test_unknown_names_are_answered_with_the_valid_ones(
    run: Run, words: tuple[str, ...], valid: list[str]
) -> None:
    """Wrong use; nothing runs."""
    wrong = run("simulate", *words)

    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert all(name in wrong.stderr for name in valid)


def test_how_many_brokers_of_a_mixed_fleet_have_no_gate_can_be_chosen(run: Run) -> None:
    """None or all of them: every broker gets its fair share, less what is lost as intervals end."""
    words = "--scenario S23 --brokers 3 --seeds 1 --jobs 1 --json --native"

    for number, least_share in (("0", 1.0), ("3", 0.98)):
        (found,) = json.loads(run("simulate", *words.split(), number).stdout)
        assert found["jain"] == pytest.approx(1.0, abs=0.001)
        assert found["min_share"] >= least_share


@pytest.mark.parametrize(
    "words",
    [
        ("--loss", "1.5"),
        ("--loss", "-0.1"),
        ("--loss", "nan"),
        ("--delay", "-1"),
        ("--delay", "1000"),
        ("--brokers", "0"),
        ("--brokers", "5000"),
        ("--scenario", "S6", "--brokers", "1"),
        ("--seeds", "0"),
        ("--jobs", "0"),
        ("--groups", "0"),
        ("--scenario", "S23", "--native", "6"),
    ],
)
def test_impossible_parameters_are_refused_before_anything_runs(
    run: Run, words: tuple[str, ...]
) -> None:
    """One line that names the option and what would do."""
    wrong = run("simulate", *words)

    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr.count("\n") == 1
    assert wrong.stderr.startswith(words[-2])


def test_a_broken_promise_is_a_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, and the seed and moment that show it again."""
    monkeypatch.setattr(
        "coordinator.simulation.world.AT_ANY_INSTANT", {"balanced": lambda _: "just because"}
    )

    words = "--scenario S11 --seeds 1 --jobs 1"
    failed = run("simulate", *words.split())

    assert failed.exit_code == 1
    assert re.match(
        r"A promise was broken: seed 0, 0\.\d+ s, broker-\d: .*just because", failed.stderr
    )
