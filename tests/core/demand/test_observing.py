"""Limits that are tried out: counted, told, and nothing is held back."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from coordinator.core.demand.observing import OBSERVE, Observer
from coordinator.core.events import GroupsChanged
from coordinator.core.instructions import Instruction, SetLocalLimits
from coordinator.core.model import (
    AnyRates,
    Dimension,
    MonitoringClass,
    Rate,
    Rates,
    ResourceGroup,
    Unit,
    rates_of,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.insight.model.explain import certificates, explain, group_view
from tests.core.cluster import GROUP, SECOND_NS, STEP_NS, Cluster

PUBLISH = MonitoringClass.PUBLISH
MESSAGES = Dimension.PUBLISH_MESSAGES
KEY = (GROUP, PUBLISH)


def observer(limit: Rate = 1_000) -> tuple[Observer, AnyRates]:
    """An observer of the group, and its local limits."""
    watching = Observer(CoreSettings(broker="b1"))
    watching.set_groups([ResourceGroup(GROUP, Rates(), enforcement=OBSERVE)])
    return watching, rates_of({MESSAGES: limit})


def passed(messages: int) -> Traffic:
    """The count of this number of messages."""
    return Traffic(GROUP, PUBLISH, messages=messages, participants=1, topics=1)


def excess_of(counts: list[int], limit: Rate = 1_000) -> int:
    """Return the traffic that would have waited, of counts of 50 ms each."""
    watching, rates = observer(limit)
    for messages in counts:
        watching.count(passed(messages), lambda _: rates, STEP_NS)
    return watching.excess(KEY).amounts[Unit.MESSAGES]


@pytest.mark.parametrize(
    ("counts", "excess"),
    [
        ([50] * 100, 0),  # as much as the limit
        ([75] * 100, 2_500),  # half as much again
        ([0] * 10 + [100], 0),  # what a bucket has saved up
        ([0] * 10 + [200], 100),  # and more than that
        ([1_000] + [0] * 99, 950),  # all at once
    ],
)
def test_what_exceeds_the_limit_would_have_waited(counts: list[int], excess: int) -> None:
    """Fifty messages come per count at 1,000/s, and fifty can be saved up."""
    assert excess_of(counts) == excess


def test_a_limit_of_less_than_a_message_per_count_lets_its_messages_through() -> None:
    """One message a second passes a limit of one a second, at any interval of counts."""
    assert excess_of(([0] * 19 + [1]) * 30, limit=1) == 0
    assert excess_of(([0] * 9 + [1]) * 60, limit=1) == 30


def test_a_limit_with_a_fraction_lets_its_messages_through() -> None:
    """Of one message a second, every other exceeds a limit of one in two seconds."""
    assert excess_of(([0] * 39 + [1]) * 30, limit=Fraction(1, 2)) == 0
    assert excess_of(([0] * 19 + [1]) * 60, limit=Fraction(1, 2)) == 30


def excess_at(state: CoordinatorState) -> int:
    """Return the messages of the group that would have waited at a sidecar."""
    return state.observer.excess(KEY).amounts[Unit.MESSAGES]


def test_a_broker_compares_with_its_exact_part_of_a_small_limit() -> None:
    """Two thirds a second, and one saved up, let every other of a message a second pass."""
    cluster = Cluster(limit=2, enforcement=OBSERVE)
    cluster.settle(1, 1, 1, seconds=5)
    before = [excess_at(state) for state in cluster.states.values()]
    cluster.run(60)
    after = [excess_at(state) for state in cluster.states.values()]

    assert [last - first for first, last in zip(before, after, strict=True)] == [30, 30, 30]


def test_the_excess_never_exceeds_what_passed_nor_spares_what_is_above_the_limit() -> None:
    """For random counts: between demand above the limit over all, and all that passed."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    dice = random.Random(seed)
    for _ in range(200):
        counts = [dice.randrange(200) for _ in range(100)]
        limit = dice.randrange(1, 5_000)
        least = sum(counts) - limit * len(counts) * STEP_NS // SECOND_NS
        assert max(0, least - 1) <= excess_of(counts, limit) <= sum(counts)


def test_a_group_that_is_enforced_is_not_counted() -> None:
    """There its own throttling is."""
    watching, rates = observer()
    watching.set_groups([ResourceGroup(GROUP, Rates())])
    watching.count(passed(1_000), lambda _: rates, STEP_NS)

    assert watching.excess(KEY).amounts[Unit.MESSAGES] == 0


class Observed(Cluster):
    """A cluster that remembers what its gates are told."""

    def __init__(self) -> None:
        super().__init__(limit=3_000)
        self.told: list[SetLocalLimits] = []

    def group(self) -> ResourceGroup:
        """The group, tried out."""
        return replace(super().group(), enforcement=OBSERVE)

    def _carry_out(self, broker: str, instructions: list[Instruction]) -> None:
        self.told += [each for each in instructions if isinstance(each, SetLocalLimits)]
        super()._carry_out(broker, instructions)


def observed_cluster() -> Observed:
    """b1 and b2 want 2,500 messages/s each of a group of 3,000 that is only observed."""
    cluster = Observed()
    cluster.settle(0, 0, seconds=1)
    for _ in range(200):
        cluster.now_ns += STEP_NS
        for broker in ("b1", "b2"):
            cluster.count(broker, (passed(125),))
    return cluster


def test_an_observed_group_is_split_and_told_as_any_other_but_not_to_the_gate() -> None:
    """Every sidecar sees the others' real demand; the gate gets no limit."""
    cluster = observed_cluster()
    state = cluster.states["b1"]

    assert cluster.told
    assert all(each == SetLocalLimits(GROUP, Rates()) for each in cluster.told)
    assert abs((state.limits()[GROUP].publish_messages or 0) - 1_500) <= 30
    why = explain(state, GROUP, MESSAGES, None, cluster.now_ns)
    assert [want.wants is None for want in why.wants] == [False, False]
    assert why.sentence.startswith("orders is tried out: nothing is held back, ")


def test_what_would_have_waited_is_the_demand_above_the_local_limit() -> None:
    """1,000 of 2,500 messages/s at each of two brokers, once the limit is split."""
    cluster = observed_cluster()
    view = group_view(cluster.states["b1"], GROUP, cluster.now_ns)
    found = view.would_hold[PUBLISH]

    assert view.enforcement == OBSERVE
    assert 9_000 <= found.messages <= 14_000
    assert found.bytes == 0
    assert 8 <= found.seconds <= 10


def test_an_observed_limit_has_no_certificate() -> None:
    """The certificate says why."""
    cluster = observed_cluster()
    (certificate,) = certificates(cluster.states["b1"], GROUP, cluster.now_ns)

    assert certificate.most is None
    assert "nothing is held back" in certificate.sentence()


def test_the_gate_hears_when_a_group_turns_from_observed_to_enforced() -> None:
    """It hears at once, although the local limit is the same, and so it does on the way back."""
    cluster = observed_cluster()
    state = cluster.states["b1"]
    observed = GroupsChanged((cluster.group(),))
    enforced = GroupsChanged((replace(cluster.group(), enforcement="enforce"),))

    def told(event: GroupsChanged) -> list[AnyRates]:
        found = state.handle(event, cluster.now_ns)
        return [each.limits for each in found if isinstance(each, SetLocalLimits)]

    assert told(enforced) == [state.limits()[GROUP]]
    assert told(observed) == [Rates()]


def test_a_group_may_be_tried_on_the_traffic_of_another() -> None:
    """The one is enforced as it is; the other counts the same messages against its own limit."""
    cluster = Cluster(limit=3_000)
    tried = ResourceGroup(
        "orders-next", Rates(publish_messages=600), enforcement=OBSERVE, observes=GROUP
    )
    for broker in ("b1", "b2"):
        cluster.start(broker, demand=500)
        cluster.send(broker, GroupsChanged((cluster.group(), tried)))
    cluster.run(20)
    view = group_view(cluster.states["b1"], "orders-next", cluster.now_ns)

    assert [row.participants for row in view.brokers] == [1, 1]
    assert [row.limits.of(Dimension.PUBLISH_MESSAGES) for row in view.brokers] == [300, 300]
    assert 3_500 <= view.would_hold[PUBLISH].messages <= 5_000
    assert min(sum(step.values()) for step in cluster.admitted[-100:]) == 1_000
    assert "on the traffic of orders" in (
        explain(cluster.states["b1"], "orders-next", MESSAGES, None, cluster.now_ns).sentence
    )


def test_what_was_counted_of_a_group_that_is_gone_is_forgotten() -> None:
    """Its name may come to mean something else."""
    watching, rates = observer()
    watching.count(passed(1_000), lambda _: rates, STEP_NS)
    watching.set_groups([])

    assert watching.excess(KEY).amounts[Unit.MESSAGES] == 0


def test_an_observer_counts_all_of_a_group_but_its_debt() -> None:
    """The debt is of the enforced limit; traffic of the observer's own name is left out."""
    observer_of = ResourceGroup(
        "orders-next", Rates(publish_messages=600), enforcement=OBSERVE, observes=GROUP
    )
    watching = Observer(CoreSettings(broker="b1"))
    watching.set_groups([ResourceGroup(GROUP, Rates(publish_messages=1_000)), observer_of])
    batch = passed(300)._replace(messages_owed=250, bytes_owed=9)

    mirrored = watching.mirror([batch, passed(5)._replace(group="orders-next")])

    assert list(mirrored) == [batch, passed(300)._replace(group="orders-next")]
    assert watching.counting("orders-next") == ()
