"""The invariants of the core: each planted mistake is found, and named with its figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.core.escrow.books import NOTHING, TOTAL, add
from coordinator.core.invariants import InvariantBroken
from coordinator.core.model import Account, Dimension, MonitoringClass, Rates
from coordinator.core.state import CoordinatorState
from tests.core.cluster import GROUP, Cluster

MESSAGES = Dimension.PUBLISH_MESSAGES


def running(policy: str) -> CoordinatorState:
    """One of two cores that share 3,000 messages/s, both with demand for more."""
    cluster = Cluster(limit=3_000, policy=policy)
    state = cluster.start("b1", 9_000)
    cluster.start("b2", 9_000)
    cluster.run(10)
    state.validate()
    return state


def give_more_than_there_is(state: CoordinatorState) -> None:
    """The escrow: a grant of more parts than the account ever had."""
    books = state.escrow._kept[GROUP].books
    books._issued[Account("b2", 2)] = (2 * TOTAL, 0, 0, 0)


def lose_a_base(state: CoordinatorState) -> None:
    """The escrow: a record whose bases do not add up to all parts."""
    record = state.escrow._kept[GROUP].books.record
    assert isinstance(record.bases, dict)
    record.bases.popitem()


def hold_more_than_the_books_say(state: CoordinatorState) -> None:
    """Escrow and limit: the limit in force was not lowered with the books."""
    books = state.escrow._kept[GROUP].books
    peer = Account("b2", 2)
    books._issued[peer] = add(books._issued.get(peer, NOTHING), books.holding())


def raise_beyond_the_limit(state: CoordinatorState) -> None:
    """A raise: announced up to more than the group's limit."""
    held = state.limits()[GROUP].of(MESSAGES)
    assert held is not None
    state._raises.want(GROUP, MESSAGES, held, 3_001, 0)


def raise_for_a_stranger(state: CoordinatorState) -> None:
    """A raise: it waits for a broker that is no member."""
    held = state.limits()[GROUP].of(MESSAGES)
    assert held is not None
    state._raises.want(GROUP, MESSAGES, held, held + 1, 0)
    state._raises.wait_for(GROUP, MESSAGES, "b9")


def lose_a_row(state: CoordinatorState) -> None:
    """The usage map: the index of a followed group misses a broker."""
    del state.usage._followed[MonitoringClass.PUBLISH][GROUP]["b2"]


def change_a_row(state: CoordinatorState) -> None:
    """The usage map: a row that its digest does not know."""
    state.usage._senders["b2"].rows[MonitoringClass.PUBLISH].digest += 1


def keep_a_stranger(state: CoordinatorState) -> None:
    """The usage map: rows of a broker that is no member."""
    state.usage._senders["b9"] = state.usage._senders["b2"]


def set_another_limit(state: CoordinatorState) -> None:
    """A limit: another value is in force than was decided."""
    state.decider.in_force[GROUP] = Rates(publish_messages=2_999)


@pytest.mark.parametrize(
    ("policy", "plant", "invariant", "figures"),
    [
        (
            "strict",
            give_more_than_there_is,
            "An account gives no more parts than its base and the transfers that it received",
            {"group": GROUP, "account": Account("b1", 1), "issued": (2 * TOTAL, 0, 0, 0)},
        ),
        (
            "strict",
            lose_a_base,
            "The bases of a record add up to all parts in every dimension",
            {"group": GROUP, "parts": TOTAL},
        ),
        (
            "strict",
            hold_more_than_the_books_say,
            "A strict local limit is at most the booked part of the group's limit",
            {"group": GROUP, "dimension": "publishRateInMsgs", "local": 1_500, "booked": 0},
        ),
        (
            "balanced",
            raise_beyond_the_limit,
            "A pending raise ends above the limit in force and within the group's limit",
            {"group": GROUP, "in_force": 1_500, "ceiling": 3_001, "limit": 3_000},
        ),
        (
            "balanced",
            raise_for_a_stranger,
            "A raise waits for members only",
            {"group": GROUP, "waits_for": "b9"},
        ),
        (
            "balanced",
            lose_a_row,
            "The index of a followed group shows the rows of all brokers",
            {"group": GROUP, "monitoring_class": "Publish"},
        ),
        (
            "balanced",
            change_a_row,
            "The digest of a broker's rows is the sum of their hashes",
            {"broker": "b2", "monitoring_class": "Publish"},
        ),
        ("balanced", keep_a_stranger, "Only members have rows", {"broker": "b9"}),
        (
            "balanced",
            set_another_limit,
            "The limit in force is the decided one",
            {"local": 2_999, "decided": 1_500},
        ),
    ],
)
def test_a_broken_state_is_named_with_its_figures(
    policy: str,
    plant: Callable[[CoordinatorState], None],
    invariant: str,
    figures: dict[str, object],
) -> None:
    """The state is valid, then one mistake is planted, and validation names it."""
    state = running(policy)
    plant(state)

    with pytest.raises(InvariantBroken) as broken:
        state.validate()
    assert broken.value.invariant == invariant
    assert figures.items() <= broken.value.figures.items()
    assert all(str(value) in str(broken.value) for value in figures.values())


def test_only_the_named_groups_are_looked_at() -> None:
    """Where events come often, a caller checks the groups that one of them changed."""
    state = running("balanced")
    set_another_limit(state)

    state.validate([])
