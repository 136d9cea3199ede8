"""The schedule is the seed's, and a long one has met every mishap."""

from __future__ import annotations

from deploy.chaos.clients import PENDING_MESSAGES
from deploy.chaos.mishaps import ALLOWANCE_S, MISHAPS, Occasion, possible
from deploy.chaos.schedule import of_names, schedule
from tests.chaos.scenes import BROKERS, LIMIT

ONCE = Occasion("broker-2", 7.0, 1.0, 9.0)


def test_the_same_seed_is_the_same_schedule() -> None:
    """A finding can be found again."""
    assert schedule(7, 60, BROKERS) == schedule(7, 60, BROKERS)
    assert schedule(7, 60, BROKERS) != schedule(8, 60, BROKERS)


def test_every_mishap_happens_before_one_happens_again() -> None:
    """A deck is dealt to its end."""
    known = possible("native")
    names = [each.name for each in schedule(3, 2 * len(known), BROKERS, known)]

    assert sorted(names[: len(known)]) == sorted(known)
    assert sorted(names[len(known) :]) == sorted(known)


def test_mishaps_can_be_chosen_by_name() -> None:
    """In this order; where and how long is the seed's."""
    names = ["bus-cut", "flood", "bus-cut"]

    assert [each.name for each in of_names(1, names, BROKERS)] == names
    assert of_names(1, names, BROKERS) == of_names(1, names, BROKERS)


def test_a_strict_group_may_stand_still_while_no_session_can_be_confirmed() -> None:
    """A dead broker's share is free a session timeout later; nothing else is excused."""
    kind = MISHAPS["session-expiry"]
    balanced, strict = (kind.happened("x", ONCE, p, BROKERS) for p in ("balanced", "strict"))

    assert not balanced.stops
    assert strict.stops == {"broker-2"}
    assert strict.recovery_s == balanced.recovery_s + 4.0
    assert strict.outside == balanced.outside == {"broker-2"}
    assert not MISHAPS["bus-cut"].happened("x", ONCE, "strict", BROKERS).stops


def test_what_happens_to_one_broker_excuses_nothing_at_the_others() -> None:
    """A gate that is killed; ZooKeeper and the bookie serve all brokers."""
    gate = MISHAPS["gate-kill"].happened("x", ONCE, "balanced", BROKERS)
    bookie = MISHAPS["bookie-kill"].happened("x", ONCE, "balanced", BROKERS)

    assert gate.cuts == gate.stops == {"broker-2"}
    assert gate.waiting == 0
    assert bookie.cuts == bookie.stops == set(BROKERS)
    assert bookie.waiting == PENDING_MESSAGES * len(BROKERS)
    assert gate.undone_within_s == ONCE.seconds + ALLOWANCE_S


def test_without_gates_what_happens_to_a_sidecar_excuses_nothing() -> None:
    """Its broker's clients do not pass it, and all parts together stay within the record."""
    for name in ("sidecar-kill", "sidecar-long-freeze", "session-expiry", "sidecars-roll"):
        found = MISHAPS[name].happened("x", ONCE, "balanced", BROKERS, "native")
        excused = found.cuts | found.stops | found.outside
        assert (excused, found.waiting) == (frozenset(), 0), name


def test_without_gates_a_broker_that_starts_anew_lets_a_whole_limit_pass_once() -> None:
    """Until its first calculation, an interval later; one that only stood still does not."""
    killed, frozen = (
        MISHAPS[name].happened("x", ONCE, "balanced", BROKERS, "native")
        for name in ("owner-kill", "broker-freeze")
    )

    assert (killed.waiting, frozen.waiting) == (LIMIT, 0)
    assert killed.cuts == killed.stops == set(BROKERS)


def test_every_mishap_says_what_happens_where_and_for_how_long_it_may() -> None:
    """Each row of the table makes a sentence and has a time to recover."""
    for planned in schedule(1, len(MISHAPS), BROKERS):
        shortest_s, longest_s = planned.kind.seconds
        assert "{" not in str(planned)
        assert shortest_s <= planned.seconds <= longest_s
        assert planned.kind.recovery_s > 0
