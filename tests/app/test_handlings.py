"""The handling of groups, as a gate is told of it."""

from __future__ import annotations

from coordinator.app.handlings import Handlings
from coordinator.core.handling import DEFAULT_HANDLING, Handling, handling_of, hold_warning
from coordinator.core.model import NANOS_PER_SECOND, Rates, ResourceGroup

USUAL = ResourceGroup("usual", Rates())
SAVING = ResourceGroup("saving", Rates(), burst_seconds=5)
REFUSING = ResourceGroup("refusing", Rates(), on_limit="refuse", hold_millis=250)


def test_only_what_is_not_usual_and_what_has_changed_is_told() -> None:
    """A deleted group has the default again, for one of its name that comes later."""
    handlings = Handlings()
    assert handlings.changed([USUAL]) == []
    told = handlings.changed([USUAL, SAVING, REFUSING])
    assert told == [
        ("refusing", Handling(refuse_after_ns=NANOS_PER_SECOND // 4)),
        ("saving", Handling(burst_ns=5 * NANOS_PER_SECOND)),
    ]
    assert handlings.changed([SAVING, REFUSING]) == []
    assert handlings.changed([REFUSING]) == [("saving", DEFAULT_HANDLING)]


def test_a_hold_time_matters_only_to_a_group_that_refuses() -> None:
    """Its value stays for when it does."""
    assert handling_of(ResourceGroup("g", Rates(), hold_millis=0)) == DEFAULT_HANDLING


def test_a_hold_time_of_the_usual_send_timeout_is_warned_of() -> None:
    """The clients' own time-out is not known, so it is no mistake."""
    assert not hold_warning(29_999)
    assert "30,000 ms by default" in hold_warning(30_000)
