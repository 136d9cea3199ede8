"""A broker's own rounds tell more of its demand than one estimate knows."""

from __future__ import annotations

import pytest

from coordinator.core.demand.meters import Meter, Meters
from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Rates, ResourceGroup, Unit
from coordinator.core.settings import CoreSettings
from coordinator.core.traffic import Traffic

COUNTS = 20
COUNT_NS = NANOS_PER_SECOND // COUNTS
LIMIT = 1_000


@pytest.fixture
def meter() -> Meter:
    """One that has been saturated for a round."""
    found = Meter(CoreSettings("b1", headroom_permille=0))
    play(found, [(LIMIT, True)] * COUNTS)
    assert found.messages.demand is None
    return found


def play(meter: Meter, counts: list[tuple[int, bool]]) -> None:
    """Play a round of counts at a rate per second; clients waited, or none did."""
    for rate, waited in counts:
        count(meter, rate // COUNTS, messages_held_ns=COUNT_NS if waited else 0)
    meter.close_round(NANOS_PER_SECOND, (LIMIT, None), (0, 0))


def count(
    meter: Meter,
    messages: int,
    *,
    messages_held_ns: int = 0,
    bytes_held_ns: int = 0,
    bytes_limit: int | None = None,
    limit: int = LIMIT,
) -> None:
    """One count of the gate."""
    traffic = Traffic(
        "orders",
        MonitoringClass.PUBLISH,
        messages,
        messages_held_ns=messages_held_ns,
        bytes_held_ns=bytes_held_ns,
    )
    meter.count(traffic, COUNT_NS, limit, bytes_limit, jointly=bytes_limit is not None)


@pytest.mark.parametrize(
    ("counts", "demand"),
    [
        # Clients who want 600 a second now first work off what waited.
        ([(LIMIT, True)] * 6 + [(600, False)] * 14, 600),
        # Where that takes most of a round, too little is left to tell what is wanted.
        ([(900, True)] * 11 + [(600, False)] * 9, 765),
        # Waiting that comes back is of new messages.
        ([(LIMIT, True)] * 4 + [(600, False)] * 12 + [(LIMIT, True)] + [(600, False)] * 3, 700),
    ],
    ids=["worked off", "most of a round", "waits again"],
)
def test_what_had_waited_is_no_demand(
    meter: Meter, counts: list[tuple[int, bool]], demand: int
) -> None:
    """The sample tells what passed, and for how long clients waited."""
    play(meter, counts)

    assert meter.messages.sample == sum(rate for rate, _ in counts) // COUNTS
    assert meter.messages.sample_held_permille == 1000 * sum(held for _, held in counts) // COUNTS
    assert meter.messages.demand == demand


def test_a_burst_that_waits_is_demand(meter: Meter) -> None:
    """It did not wait since before the round: the whole round is what is wanted."""
    play(meter, [(600, False)] * COUNTS)
    play(meter, [(600, False)] * 2 + [(LIMIT, True)] * 6 + [(600, False)] * 12)

    assert meter.messages.demand == 720


def test_waiting_for_the_other_unit_is_waiting(meter: Meter) -> None:
    """A client that waits for bytes sends no messages: only the messages pass that the bytes allow."""
    for messages, held_ns in [(50, COUNT_NS)] * 6 + [(30, 0)] * 14:
        count(meter, messages, messages_held_ns=held_ns, bytes_held_ns=COUNT_NS)
    meter.close_round(NANOS_PER_SECOND, (LIMIT, None), (0, 0))

    assert meter.messages.demand == 720


def test_a_batch_that_is_paid_for_in_several_rounds_is_no_lack_of_demand(meter: Meter) -> None:
    """A batch of three seconds' messages passed, and in the next two seconds nothing does."""
    play(meter, [(COUNTS * 3 * LIMIT, True)] + [(0, True)] * (COUNTS - 1))
    for _ in range(2):
        play(meter, [(0, True)] * COUNTS)
        assert meter.messages.sample == 0
        assert meter.messages.demand is None


@pytest.mark.parametrize("unit", Unit)
def test_few_messages_are_no_lack_of_demand_in_the_unit_whose_limit_is_large(unit: Unit) -> None:
    """Four messages in a round and none in the next are chance where that is little of the limit."""
    limits = {Unit.MESSAGES: Rates(publish_messages=1_000), Unit.BYTES: Rates(publish_bytes=10**6)}
    groups = {"orders": ResourceGroup("orders", limits[unit])}
    meters = Meters(CoreSettings("b1", headroom_permille=0))
    for passed in (4, 0):
        traffic = Traffic("orders", MonitoringClass.PUBLISH, passed, 100 * passed, participants=1)
        meters.count(traffic, NANOS_PER_SECOND, Rates(), jointly=False)
        meters.close_round(NANOS_PER_SECOND, {}, groups, members=2)

    meter = meters.get(("orders", MonitoringClass.PUBLISH))
    assert meter is not None
    assert meter.messages.demand == (4 if unit is Unit.MESSAGES else 0)
    assert meter.bytes.demand == (400 if unit is Unit.BYTES else 0)


def test_of_a_group_that_is_gone_no_meter_is_kept() -> None:
    """Its gate may count it once more after its deletion, and no report could tell its end."""
    meters = Meters(CoreSettings("b1"))
    for participants in (1, 0):
        traffic = Traffic("gone", MonitoringClass.PUBLISH, participants=participants)
        meters.count(traffic, NANOS_PER_SECOND, Rates(), jointly=False)
        meters.close_round(NANOS_PER_SECOND, {}, {}, members=1)

    assert list(meters) == []


def demands(*rounds: tuple[int, int], limit: int | None = LIMIT) -> list[int | None]:
    """Return the demand after each round, given the messages that passed and those owed at its end."""
    found = Meter(CoreSettings("b1", headroom_permille=0))
    seen = []
    for passed, owed in rounds:
        traffic = Traffic("orders", MonitoringClass.PUBLISH, passed, messages_owed=owed)
        found.count(traffic, NANOS_PER_SECOND, limit, None, jointly=False)
        found.close_round(NANOS_PER_SECOND, (limit, None), (0, 0))
        seen.append(found.messages.demand)
    return seen


def test_a_batch_uses_the_limit_until_it_is_paid_for() -> None:
    """Its round counts the whole batch; the next rounds count their payments."""
    assert demands((2_500, 1_500), (0, 500), (0, 0), (0, 0)) == [2_500, 1_000, 500, 0]


def test_a_second_batch_is_paid_for_after_the_first() -> None:
    """Messages count when they pass while the debt grows, and payments count once it shrinks."""
    seen = demands((2_000, 1_000), (1_400, 1_400), (0, 400), (0, 0), (0, 0))

    assert seen == [2_000, 1_400, 1_000, 400, 0]


def test_messages_that_pass_beside_a_payment_add_to_it() -> None:
    """300 pass and 700 of the debt are paid: the limit is used up."""
    assert demands((2_000, 1_000), (300, 300))[-1] == 1_000


def test_without_a_limit_a_debt_that_ends_is_no_payment() -> None:
    """The bucket is gone, and its debt with it."""
    assert demands((2_500, 1_500), (10, 0), limit=None)[-1] == 10


def test_what_passes_while_the_other_unit_is_waited_for_is_no_demand() -> None:
    """Clients wait for messages half of the time and for bytes the other half; half of either passes."""
    found = Meter(CoreSettings("b1", headroom_permille=0))
    for number in range(3 * COUNTS):
        on_bytes = number % 2
        count(
            found,
            LIMIT // COUNTS if number < COUNTS else LIMIT // COUNTS // 2,
            messages_held_ns=0 if on_bytes else COUNT_NS,
            bytes_held_ns=COUNT_NS if on_bytes else 0,
            bytes_limit=LIMIT,
        )
        if number % COUNTS == COUNTS - 1:
            found.close_round(NANOS_PER_SECOND, (LIMIT, LIMIT), (0, 0))

    assert found.messages.sample == LIMIT // 2
    assert found.messages.sample_held_permille == 500
    assert found.messages.demand is None


def test_a_probe_is_one_of_both_units_in_the_proportion_of_a_message() -> None:
    """First bytes bind, then messages, and too few pass to prove more than a multiple of a limit.

    The limit of bytes has room to spare by then: eight times either limit are messages of 11.5 kB.
    """
    meter = Meter(CoreSettings("b1"))
    for messages, held_by, limits in (
        (5, None, (150, 750_000)),
        (15, Unit.BYTES, (150, 150_000)),
        (91, Unit.MESSAGES, (91, 1_046_000)),
    ):
        traffic = Traffic(
            "orders",
            MonitoringClass.PUBLISH,
            messages,
            bytes=messages * 10_000,
            messages_held_ns=NANOS_PER_SECOND if held_by is Unit.MESSAGES else 0,
            bytes_held_ns=NANOS_PER_SECOND if held_by is Unit.BYTES else 0,
        )
        meter.count(traffic, NANOS_PER_SECOND, *limits, jointly=True)
        meter.close_round(NANOS_PER_SECOND, limits, (0, 0))

    usage = meter.usage(91, 1_046_000)
    assert usage.messages_demand is not None
    assert usage.messages_demand > 91
    assert usage.bytes_demand == usage.messages_demand * 10_000


def test_a_newcomer_that_still_waits_when_its_limit_was_raised_has_shown_no_demand() -> None:
    """A broker without a gate has a limit an interval later; what passes meanwhile is the old one's."""
    found = Meter(CoreSettings("b1", headroom_permille=0))
    found.began = True
    for _ in range(COUNTS - 5):
        count(found, 0, limit=5)
    for limit in (5, 5, 5, LIMIT, LIMIT):
        count(found, 1, messages_held_ns=COUNT_NS, limit=limit)
    found.close_round(NANOS_PER_SECOND, (LIMIT, None), (0, 0))
    assert found.messages.demand is None

    play(found, [(40, True)] * COUNTS)
    assert found.messages.demand is None
    play(found, [(40, False)] * COUNTS)
    assert found.messages.demand == 40


def test_a_newcomer_that_waits_no_more_has_shown_its_demand() -> None:
    """A gate has a raised limit at once."""
    found = Meter(CoreSettings("b1", headroom_permille=0))
    found.began = True
    for _ in range(COUNTS // 2):
        count(found, 1, messages_held_ns=COUNT_NS, limit=5)
    for _ in range(COUNTS // 2):
        count(found, 2, limit=LIMIT)
    found.close_round(NANOS_PER_SECOND, (LIMIT, None), (0, 0))
    assert found.messages.demand == 30
