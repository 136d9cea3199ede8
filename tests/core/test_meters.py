"""What a broker's own rounds say of its demand, beyond what one estimate is told."""

from __future__ import annotations

import pytest

from coordinator.core.meters import UnitMeter
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.settings import CoreSettings

COUNTS = 20
COUNT_NS = NANOS_PER_SECOND // COUNTS
LIMIT = 1_000


@pytest.fixture
def meter() -> UnitMeter:
    """One that has been saturated for a round."""
    found = UnitMeter(CoreSettings("b1", headroom_permille=0))
    play(found, [(LIMIT, True)] * COUNTS)
    assert found.demand is None
    return found


def play(meter: UnitMeter, counts: list[tuple[int, bool]]) -> None:
    """A round of counts: at which rate per second messages passed, and whether somebody waited."""
    total = 0
    for rate, waited in counts:
        admitted = rate // COUNTS
        total += admitted
        held_ns = COUNT_NS if waited else 0
        meter.count(admitted, held_ns, COUNT_NS, LIMIT, admitted, waited=waited)
    meter.close_round(NANOS_PER_SECOND, LIMIT, total)


def test_what_had_waited_is_no_demand(meter: UnitMeter) -> None:
    """Clients who want 600 a second now first work off what waited; the sample tells what passed."""
    play(meter, [(LIMIT, True)] * 6 + [(600, False)] * 14)

    assert meter.sample == 720
    assert meter.sample_held_permille == 300
    assert meter.demand == 600


def test_what_had_waited_counts_where_it_passes_for_most_of_a_round(meter: UnitMeter) -> None:
    """Too little is left to tell what is wanted."""
    play(meter, [(900, True)] * 11 + [(600, False)] * 9)

    assert meter.demand == 765


def test_a_burst_that_waits_is_demand(meter: UnitMeter) -> None:
    """It did not wait since before the round: the whole round is what is wanted."""
    play(meter, [(600, False)] * COUNTS)
    play(meter, [(600, False)] * 2 + [(LIMIT, True)] * 6 + [(600, False)] * 12)

    assert meter.demand == 720


def test_waiting_for_the_other_unit_is_waiting(meter: UnitMeter) -> None:
    """Who waits for bytes now sends no more messages: what passes is what the bytes let through."""
    for admitted, held_ns in [(50, COUNT_NS)] * 6 + [(30, 0)] * 14:
        meter.count(admitted, held_ns, COUNT_NS, LIMIT, admitted, waited=True)
    meter.close_round(NANOS_PER_SECOND, LIMIT, 720)

    assert meter.demand == 720


def test_who_waits_again_has_not_worked_it_off(meter: UnitMeter) -> None:
    """Waiting that comes back is of new messages."""
    play(meter, [(LIMIT, True)] * 4 + [(600, False)] * 12 + [(LIMIT, True)] + [(600, False)] * 3)

    assert meter.demand == 700
