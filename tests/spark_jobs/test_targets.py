"""Conditions: what they mean, and what is no condition."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.refusals import RefusedInput
from spark_jobs.targets import missed, parse


def event(**figures: Any) -> dict[str, Any]:
    """One judged event with good figures."""
    good = {"settle_s": 1, "jain": 1.0, "reclaim_s": None, "peak_10s": None}
    head = {"resource_group": "orders", "dimension": "d", "event": 3, "kinds": ["join"]}
    return {**head, "judged": True, **good, **figures}


def test_conditions_are_read() -> None:
    """Both signs, blanks and decimals."""
    conditions = parse(" settle_s<=2, jain >= 0.999 ,")

    assert [str(condition) for condition in conditions] == ["settle_s<=2", "jain>=0.999"]
    assert parse("") == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("settle_s<2", "'settle_s<2': write FIGURE<=NUMBER"),
        ("settle_s<=two", "'settle_s<=two': write FIGURE<=NUMBER"),
        ("speed<=2", "'speed' is no figure; there are settle_s, jain"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, reason: str) -> None:
    """With the part that is wrong."""
    with pytest.raises(RefusedInput) as refusal:
        parse(text)
    assert str(refusal.value).startswith(reason)


def test_a_bound_is_kept_up_to_itself() -> None:
    """2 is within <=2, 3 is not; the event is named."""
    conditions = parse("settle_s<=2")

    assert missed(conditions, [event(settle_s=2)]) == []
    assert missed(conditions, [event(settle_s=3)]) == [
        "orders d event 3 (join): settle_s is 3, wanted settle_s<=2"
    ]


def test_never_settled_misses_every_bound() -> None:
    """No value is no pass."""
    assert missed(parse("settle_s<=1000"), [event(settle_s=None)]) == [
        "orders d event 3 (join): settle_s is never, wanted settle_s<=1000"
    ]


def test_reclaim_is_asked_of_crashes_only() -> None:
    """A join reclaims nothing; a crash without a reclaim misses."""
    conditions = parse("reclaim_s<=5")

    assert missed(conditions, [event()]) == []
    assert len(missed(conditions, [event(kinds=["crash", "leave"])])) == 1


def test_events_that_cannot_be_judged_are_spared_but_not_all() -> None:
    """A build must not pass because nothing was measured."""
    short = event(settle_s=None, judged=False)

    assert missed(parse("settle_s<=2"), [short, event()]) == []
    assert missed(parse("settle_s<=2"), [short]) == [
        "no event can be judged: every period is shorter than five seconds"
    ]
    assert missed((), []) == []


def test_an_event_in_which_nothing_was_wanted_is_spared_but_not_all() -> None:
    """Clients that are connected and send nothing have no shares to be judged."""
    conditions, idle = parse("jain>=0.999,settle_s<=2,peak_10s<=1"), event(jain=None)

    assert missed(conditions, [idle, event()]) == []
    assert missed(conditions, [idle, idle]) == [
        "no event has jain: nothing was wanted, certified or known"
    ]
