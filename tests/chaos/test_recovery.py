"""The checker finds late recovery, standstill, unfair shares and dead processes after mishaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from deploy.chaos.checker import recovery
from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.history import History
from deploy.chaos.checker.recovery_window import recovered_after, recovery_windows
from deploy.chaos.checker.verdict import judge
from tests.chaos.scenes import BROKERS, FAIR, SHARE, UNTIL_S, history, mishap, sweep, sweeps
from tests.demo.scenes import Rates


def rules(found: History) -> set[str]:
    """The rules that do not hold."""
    counted = Counted(found)
    return {each.rule for each in recovery.check(found, counted, recovery_windows(found, counted))}


def all_at(*steps: tuple[float, float]) -> Mapping[str, Rates]:
    """Every broker admits this from these seconds on."""
    return dict.fromkeys(BROKERS, steps)


def test_nothing_is_found_in_a_minute_without_mishap() -> None:
    """The scene itself has no fault."""
    assert rules(history()) == set()


def test_traffic_must_be_back_in_time() -> None:
    """A mishap of 4 s with 10 s to recover: back after 5 s, or after 15 s."""
    stopped = mishap(20.0, 24.0, recovery_s=10.0, stops=BROKERS)
    soon = history(all_at((0, SHARE), (20, 0), (29, SHARE)), mishaps=[stopped])
    late = history(all_at((0, SHARE), (20, 0), (39, SHARE)), mishaps=[stopped])

    assert rules(soon) == set()
    assert recovered_after(soon, Counted(soon), stopped) == pytest.approx(7.0, abs=0.5)
    assert rules(late) == {"recovery"}


def test_the_limit_in_use_is_no_recovery_while_a_broker_starves_or_a_producer_is_missing() -> None:
    """The other two use up what the third does not get."""
    more: Rates = [(0.0, SHARE), (20.0, SHARE * 1.5)]
    starved: dict[str, Rates] = {
        "broker-1": [(0.0, SHARE), (20.0, 0)],
        "broker-2": more,
        "broker-3": more,
    }
    alone = [
        replace(sample, clients=0) if sample.broker == "broker-1" else sample
        for sample in history().samples
    ]

    assert "recovery" in rules(history(starved, mishaps=[mishap()]))
    assert rules(replace(history(mishaps=[mishap()]), samples=alone)) == {"recovery"}


def test_a_sidecar_that_is_not_active_again_in_time_is_found_though_traffic_goes_on() -> None:
    """It holds its last limit for ever, say."""
    words = sweeps()
    for index in range(40, 80):
        words[index]["broker-2"] = replace(words[index]["broker-2"], state="DEGRADED")

    assert rules(history(mishaps=[mishap()], words=words)) == {"recovery"}


def test_a_mishap_that_does_not_stop_traffic_must_leave_it_going_on() -> None:
    """Half of the limit for 6 s."""
    halved = all_at((0, SHARE), (20, SHARE / 2), (26, SHARE))

    assert rules(history(halved, mishaps=[mishap(20.0, 26.0)])) == {"going on"}
    assert rules(history(halved, mishaps=[mishap(20.0, 26.0, stops=BROKERS)])) == set()


def test_what_happens_to_one_broker_leaves_the_traffic_of_the_others_going_on() -> None:
    """All three stop while one sidecar is down; or the struck one's share is taken by the others."""
    stopped = all_at((0, SHARE), (20, 0), (28, SHARE))
    taken: Rates = [(0.0, SHARE), (20.0, SHARE * 1.45), (26.0, SHARE)]
    starved: dict[str, Rates] = {
        "broker-1": [(0.0, SHARE), (20.0, 0), (26.0, SHARE)],
        "broker-2": taken,
        "broker-3": taken,
    }
    alone = mishap(20.0, 26.0, stops=["broker-1"])

    assert rules(history(stopped, mishaps=[mishap(20.0, 28.0, stops=["broker-1"])])) == {"going on"}
    assert rules(history(starved, mishaps=[alone])) == set()
    assert rules(history(starved, mishaps=[mishap(20.0, 26.0)])) == {"going on"}


def test_traffic_and_sidecars_must_stay_as_they_were_once_it_is_calm() -> None:
    """Nothing from 30 to 45 s, long after a mishap; or a sidecar that is DEGRADED then."""
    paused = all_at((0, SHARE), (30, 0), (45, SHARE))
    words = sweeps()
    for index in range(60, 90):
        words[index]["broker-2"] = replace(words[index]["broker-2"], state="DEGRADED")

    assert rules(history(paused)) == {"calm"}
    assert rules(history(paused, mishaps=[mishap()])) == {"calm"}
    assert rules(history(mishaps=[mishap()], words=words)) == {"calm"}


def test_who_takes_too_long_to_undo_a_mishap_is_found() -> None:
    """A killed sidecar that serves again only after 42 s."""
    slow = mishap(5.0, 47.0, undone_within_s=13.0, stops=BROKERS)

    assert rules(history(mishaps=[slow])) == {"undone"}


def test_a_dead_sidecar_at_the_end_is_found() -> None:
    """Silent, or in a state that it does not leave."""
    silent, degraded = sweeps(), sweeps()
    silent[-1] = {**sweep(UNTIL_S), "broker-3": replace(sweep(UNTIL_S)["broker-3"], state="")}
    degraded[-1] = sweep(UNTIL_S, state="DEGRADED")

    assert rules(history(words=silent)) == {"end"}
    assert rules(history(words=degraded)) == {"end"}


def test_the_end_is_at_the_limit_and_fair() -> None:
    """A quarter wasted; or all of it used, and one broker starved."""
    wasted = all_at((0, SHARE), (45, 0.75 * SHARE))
    starved = {**FAIR, "broker-1": [(0.0, SHARE), (45.0, 1)], "broker-2": [(0.0, SHARE), (45, 399)]}

    assert rules(history(wasted)) == {"end", "calm"}
    assert rules(history(starved)) == {"end"}


def test_a_change_that_never_settles_is_found() -> None:
    """An operator would have to repair it."""
    assert rules(history(unsettled=["operation 7 is converging"])) == {"end"}


def test_a_sidecar_that_records_no_more_is_found() -> None:
    """Its recorder died while the disk was full."""
    assert rules(replace(history(), not_recording=["broker-1"])) == {"end"}


def test_the_verdict_holds_all_rules_and_says_how_much_it_looked_at() -> None:
    """A run that shows nothing must be seen to."""
    verdict = judge(history(mishaps=[mishap()]))

    assert verdict.findings == ()
    assert "200 acknowledged messages" in verdict.looked_at
    assert "1 mishaps" in verdict.looked_at
    assert dict(verdict.recovered) == {"a mishap": 2.0}
