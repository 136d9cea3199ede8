"""The checker finds each broken bound at the limit, and excuses what a mishap explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from deploy.chaos.checker import bounds
from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.history import History, Word
from deploy.chaos.checker.recovery_window import recovery_windows
from deploy.demo.recording import Sample
from tests.chaos.scenes import BROKERS, FAIR, LIMIT, SHARE, history, mishap, sweep, sweeps
from tests.demo.scenes import Rates


def rules(found: History) -> set[str]:
    """The rules that do not hold."""
    counted = Counted(found)
    return {each.rule for each in bounds.check(found, counted, recovery_windows(found, counted))}


def one_bursts(rate: float, seconds: float, at_s: float = 30.0) -> Mapping[str, Rates]:
    """The first broker admits `rate` for a while, the others their share."""
    burst = [(0.0, SHARE), (at_s, rate), (at_s + seconds, SHARE)]
    return {**FAIR, "broker-1": burst}


def test_nothing_is_found_while_the_limit_is_shared() -> None:
    """The scene itself has no fault."""
    assert rules(history()) == set()


def test_a_second_over_the_limit_is_found() -> None:
    """A raise without a grant: 50 % more for one second, or all that a broker can."""
    assert rules(history(one_bursts(SHARE + 300, 1.0))) == {"exceeded"}
    assert rules(history(one_bursts(3_000, 0.3))) == {"exceeded"}


def test_ten_seconds_a_little_over_the_limit_are_found() -> None:
    """4 % too much is lost in the noise of a second and not in that of ten."""
    assert rules(history(one_bursts(SHARE + 0.04 * LIMIT, 12.0))) == {"exceeded"}


NATIVE_BURST_S = 0.5
"""A broker's own limiter starts each interval of 1 s with a bucket of half a second."""


def lumps(rate: float) -> Rates:
    """A broker's own limiter: half of a second's rate at each interval's start, half over the interval.

    One interval starts late, as on a busy machine, and the next one on time.
    """
    at_once_s, late_s = 0.05, 0.4
    found: list[tuple[float, float]] = []
    for second in range(70):
        start_s = second + (late_s if second == 30 else 0.0)
        found.append((start_s, rate * NATIVE_BURST_S * (1 + 1 / at_once_s)))
        found.append((start_s + at_once_s, rate * NATIVE_BURST_S))
    return found


def test_a_bucket_at_each_interval_is_within_the_bound_of_a_brokers_own_limiter() -> None:
    """All brokers begin at once, and a second has two beginnings in it."""
    rates = dict.fromkeys(BROKERS, lumps(SHARE))
    native = replace(history(rates), burst_s=NATIVE_BURST_S)

    assert rules(native) == set()
    assert "exceeded" in rules(replace(native, burst_s=0.05))


def test_a_record_as_high_as_the_limit_is_found() -> None:
    """A limiter that forgets its bucket at each interval lets twice as much pass."""
    rates = dict.fromkeys(BROKERS, lumps(2 * SHARE))

    assert rules(replace(history(rates), burst_s=NATIVE_BURST_S)) == {"exceeded"}


def test_a_minute_a_little_over_the_limit_is_found() -> None:
    """1.4 % too much is lost in the noise of ten seconds."""
    over: Rates = [(0.0, SHARE * 1.014)]

    assert rules(history(dict.fromkeys(BROKERS, over))) == {"exceeded"}


def test_a_saved_up_burst_is_within_the_bound() -> None:
    """The buckets' saved tokens may pass at once."""
    assert rules(history(one_bursts(SHARE + 0.05 * LIMIT / 0.2, 0.2))) == set()


@pytest.mark.parametrize("read_late", [False, True])
def test_a_slow_answer_is_no_evidence_of_a_fault(read_late: bool) -> None:
    """The count may have been read at either end of the time that the answers took."""

    def slow(sample: Sample) -> Sample:
        if not 29.9 < sample.at_s < 30.1:
            return sample
        if read_late:
            return replace(sample, sent_s=sample.sent_s - 1.5)
        return replace(sample, answered_s=sample.answered_s + 1.5)

    first_s, last_s = (28.4, 29.9) if read_late else (30.1, 31.6)
    asked = [slow(s) for s in history().samples if not first_s < s.at_s < last_s]

    assert rules(replace(history(), samples=asked)) == set()


@pytest.mark.parametrize(("waiting", "found"), [(300, set()), (0, {"exceeded"})])
def test_what_waited_for_a_standing_broker_may_be_counted_afterwards(
    waiting: int, found: set[str]
) -> None:
    """A broker stands for 1.5 s and then counts in 0.2 s what its gate let through."""
    stands: Rates = [(0.0, SHARE), (30.0, 0), (31.5, SHARE * 8.5), (31.7, SHARE)]
    during = mishap(30.0, 31.5, waiting=waiting, stops=["broker-2"])

    assert rules(history({**FAIR, "broker-2": stands}, mishaps=[during])) == found


def test_more_than_can_have_waited_is_found_for_all_that() -> None:
    """A gate that saved up tokens while it stood still: a client sends no more than 300 ahead."""
    saved: Rates = [(0.0, SHARE), (30.0, 0), (33.0, SHARE * 4), (34.0, SHARE)]
    during = mishap(30.0, 33.0, waiting=300, stops=BROKERS)

    assert rules(history(dict.fromkeys(BROKERS, saved), mishaps=[during])) == {"exceeded"}


@pytest.mark.parametrize(("seconds", "found"), [(0.4, set()), (0.8, {"exceeded"})])
def test_a_broker_that_has_just_come_back_may_stand_still_for_half_a_second(
    seconds: float, found: set[str]
) -> None:
    """It then counts the waiting messages, long after the mishap itself."""
    hiccups: Rates = [
        (0.0, SHARE),
        (30.0, 0),
        (30.0 + seconds, SHARE + 5 * SHARE * seconds),
        (30.2 + seconds, SHARE),
    ]
    rates = dict.fromkeys(BROKERS, hiccups)
    before = mishap(26.0, 27.0, waiting=1, stops=BROKERS)

    assert rules(history(rates, mishaps=[before])) == found


@pytest.mark.parametrize(
    ("policy", "found"), [("balanced", set()), ("eager", set()), ("strict", {"exceeded"})]
)
def test_a_sidecar_that_is_cut_off_may_go_on_with_what_it_held_unless_the_group_is_strict(
    policy: str, found: set[str]
) -> None:
    """The others share the whole limit while it keeps its third."""
    rates = {
        "broker-1": [(0.0, SHARE)],
        "broker-2": [(0.0, SHARE), (26.0, 300), (29.0, SHARE)],
        "broker-3": [(0.0, SHARE), (26.0, 300), (29.0, SHARE)],
    }
    cut = mishap(20.0, 28.0, outside=["broker-1"])

    assert rules(history(rates, mishaps=[cut], policy=policy)) == found
    assert rules(history(rates, mishaps=[], policy=policy)) == {"exceeded"}


def with_words(changed: Mapping[int, dict[str, Word]], policy: str = "balanced") -> History:
    """The scene, with some of its sweeps replaced."""
    said: list[Mapping[str, Word]] = list(sweeps())
    for index, words in changed.items():
        said[index] = words
    return history(words=said, policy=policy)


def test_limits_that_add_up_to_more_than_the_certificate_are_found() -> None:
    """All the while, in three sweeps in a row."""
    broken = {index: sweep(index / 2, limit=SHARE + 1) for index in (40, 41, 42)}

    assert rules(with_words(broken)) == {"certificate"}


def test_a_limit_that_moved_between_two_questions_breaks_no_certificate() -> None:
    """One had given it up when the other was asked."""
    given = sweep(20.0, limit=SHARE)
    given["broker-1"] = replace(given["broker-1"], limit=SHARE + 100)

    assert rules(with_words({40: given})) == set()


def test_the_lowest_certificate_counts_and_none_is_no_certificate() -> None:
    """Each one must be true; a sidecar that is cut off certifies nothing."""

    def said(index: int, certified: Sequence[int | None]) -> dict[str, Word]:
        words = sweep(index / 2)
        for broker, most in zip(BROKERS, certified, strict=True):
            words[broker] = replace(words[broker], certified=most)
        return words

    low = {index: said(index, (LIMIT, LIMIT - 1, None)) for index in (40, 41, 42)}
    mute = {index: said(index, (None, None, None)) for index in (40, 41, 42)}

    assert rules(with_words(low)) == {"certificate"}
    assert rules(with_words(mute)) == set()


def test_who_says_nothing_all_along_is_found() -> None:
    """A sidecar without limits and certificates could break no rule."""
    silent = sweep(0.0)["broker-1"]
    silent = replace(silent, limit=None, certified=None)
    words = [{**said, "broker-1": silent} for said in sweeps()]
    all_silent = [dict.fromkeys(BROKERS, silent) for _ in sweeps()]

    assert rules(history(words=words)) == {"certificate"}
    assert rules(history(words=all_silent)) == {"certificate"}


def test_a_strict_group_never_holds_more_than_its_limit() -> None:
    """No certificate excuses it."""
    broken = {
        index: sweep(index / 2, limit=SHARE + 1, certified=2 * LIMIT) for index in (40, 41, 42)
    }

    assert rules(with_words(broken)) == set()
    assert rules(with_words(broken, policy="strict")) == {"strict"}


def test_a_run_that_was_not_watched_shows_nothing() -> None:
    """No counters, no words."""
    assert rules(replace(history(), samples=[], sweeps=[])) == {"windows", "certificate"}
