"""Several cores together: where the limits settle, how soon, and what holds them while degraded."""

from fractions import Fraction

import pytest

from coordinator.core.events import ConnectionChanged, ConnectionState
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import Dimension
from tests.core.cluster import SECOND_NS, Cluster


@pytest.mark.parametrize(("policy", "seconds"), [("balanced", 1), ("eager", 2)])
def test_a_saturated_skewed_start_settles_at_equal_shares(policy: str, seconds: int) -> None:
    """5,000 and 2,000 wanted of 3,000: both get half, and balanced never passes more than 3,000."""
    cluster = Cluster(limit=3000, policy=policy)
    cluster.settle(5000, 2000, seconds=seconds)

    assert {cluster.limit_of("b1"), cluster.limit_of("b2")} == {1500}
    if policy == "balanced":
        assert max(sum(step.values()) for step in cluster.admitted) <= 3000
    cluster.validate()


def test_a_joiner_gets_its_fair_share_within_two_rounds(cluster: Cluster) -> None:
    """The third participant starts from the reserve and has its third long before the second round."""
    cluster.settle(5000, 2000, 0)
    assert cluster.limit_of("b3") == 5
    cluster.want("b3", 5000)
    cluster.run(1)

    assert [cluster.limit_of(broker) for broker in ("b1", "b2", "b3")] == [1000, 1000, 1000]
    assert max(sum(step.values()) for step in cluster.admitted) <= 3000


def test_a_new_limit_is_in_force_within_a_round(cluster: Cluster) -> None:
    """Doubled and halved: lowered at once, raised into the new room."""
    cluster.settle(9000, 9000, 9000, seconds=2)
    cluster.set_limit(6000)
    cluster.run(0.5)
    assert [cluster.limit_of(broker) for broker in ("b1", "b2", "b3")] == [2000, 2000, 2000]
    cluster.set_limit(3000)

    assert [cluster.limit_of(broker) for broker in ("b1", "b2", "b3")] == [1000, 1000, 1000]


def test_a_dead_brokers_share_stays_until_its_session_ends_and_then_returns(
    cluster: Cluster,
) -> None:
    """Silence is not idleness; membership's word is, and then one round is enough."""
    cluster.settle(5000, 5000, 5000, seconds=2)
    cluster.kill("b2")
    cluster.run(4)
    assert [cluster.limit_of("b1"), cluster.limit_of("b3")] == [1000, 1000]
    cluster.end_session("b2")
    cluster.run(0.5)

    assert [cluster.limit_of("b1"), cluster.limit_of("b3")] == [1500, 1500]


@pytest.mark.parametrize(("policy", "lost"), [("balanced", 0), ("strict", 3)])
def test_what_one_broker_does_not_use_the_others_get(policy: str, lost: int) -> None:
    """A demand below the fair share keeps a little headroom; all the rest goes to the saturated ones.

    By the books of a strict group up to a message a broker is lost to rounding.
    """
    cluster = Cluster(limit=3000, policy=policy)
    cluster.settle(5000, 5000, 5000)
    cluster.want("b2", 300)
    cluster.run(3)

    assert 300 <= cluster.limit_of("b2") <= 330
    assert 3000 - lost <= sum(cluster.limit_of(broker) for broker in cluster.states) <= 3000
    cluster.validate()


@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_a_constant_demand_moves_no_limit(policy: str) -> None:
    """After settling, limits do not change for a minute (oscillation 0)."""
    cluster = Cluster(limit=3000, policy=policy)
    cluster.settle(5000, 700, 0, seconds=200)
    before = [cluster.limit_of(broker) for broker in cluster.states]
    cluster.run(60)

    assert [cluster.limit_of(broker) for broker in cluster.states] == before
    cluster.validate()


@pytest.mark.parametrize("size", [0, 1])
def test_a_law_of_use_follows_the_use_where_no_demand_and_no_limit_has_changed(size: int) -> None:
    """Of a raised limit more is used, and the next split goes by that, until both brokers get no more."""
    cluster = Cluster(limit=100, law="steal", policy="eager")
    for broker in ("b1", "b2"):
        cluster.sizes[broker] = size
        cluster.start(broker)
    for demands, expected in (((140, 30), [70, 50]), ((140, 20), [80, 50]), ((70, 70), [50, 50])):
        for broker, demand in zip(cluster.states, demands, strict=True):
            cluster.want(broker, demand)
        cluster.run(8)

        assert [cluster.limit_of(broker) for broker in cluster.states] == expected


def test_a_gate_that_stands_still_keeps_its_share(cluster: Cluster) -> None:
    """It passes half of its limit for five rounds while producers wait; then all of it again at once."""
    cluster.settle(9000, 9000, 9000, seconds=2)
    cluster.stalled_permille["b3"] = 500
    cluster.run(5)
    assert cluster.admitted[-1] == {"b1": 1000, "b2": 1000, "b3": 500}
    cluster.stalled_permille.clear()
    cluster.run(0.05)

    assert cluster.admitted[-1] == {"b1": 1000, "b2": 1000, "b3": 1000}


@pytest.mark.parametrize("lost_permille", [40, 100, 500])
def test_a_gate_that_always_loses_some_of_its_tokens_is_not_kept_at_what_it_once_wanted(
    cluster: Cluster, lost_permille: int
) -> None:
    """Its 20 a second were known when it began to want everything."""
    cluster.settle(9000, 9000, 20, seconds=15)
    cluster.stalled_permille["b3"] = lost_permille
    cluster.want("b3", 9000)
    cluster.run(10)

    assert [cluster.limit_of(broker) for broker in ("b1", "b2", "b3")] == [1000, 1000, 1000]


def test_a_new_incarnation_has_patience_with_a_bus_that_was_silent_for_long(
    cluster: Cluster,
) -> None:
    """Its equal part is free only when the others, to whom it is new, have waited as long."""
    cluster.settle(5000, 5000, seconds=5)
    cluster.deaf = {"b1"}
    cluster.send("b1", ConnectionChanged(ConnectionState.LOST))
    cluster.end_session("b1")
    cluster.run(80)
    cluster.send("b1", ConnectionChanged(ConnectionState.CONNECTED))
    assert cluster.limit_of("b1") <= 15
    cluster.run(30)
    assert cluster.limit_of("b1") <= 15
    cluster.run(60)

    assert (cluster.limit_of("b1"), cluster.limit_of("b2")) == (1500, 1500)


@pytest.mark.parametrize(("policy", "expected"), [("hold", 3000), ("safe", 1500), ("stop", 0)])
def test_the_partition_policy_decides_what_a_lost_sidecar_lets_through(
    policy: str, expected: int
) -> None:
    """With hold it keeps its limit, with safe at most C/N, with stop nothing passes."""
    cluster = Cluster(limit=3000, partition_policy=policy)
    cluster.settle(5000, 0, seconds=2)
    cluster.send("b1", ConnectionChanged(ConnectionState.SUSPENDED))
    cluster.run(5)

    assert cluster.limit_of("b1") == min(expected, 2993)


def test_the_end_of_the_lease_stops_a_sidecar_at_once_and_not_at_the_end_of_the_round() -> None:
    """Others claim its share by the clock, so its own clock acts between two rounds as well."""
    cluster = Cluster(limit=3000, partition_policy="stop")
    cluster.settle(5000, 0, seconds=2.3)
    cluster.send("b1", ConnectionChanged(ConnectionState.SUSPENDED))
    until_ns = cluster.states["b1"].lease.until_ns
    assert until_ns is not None
    cluster.run((until_ns - cluster.now_ns) / SECOND_NS - 0.05)
    assert cluster.limit_of("b1") > 0
    cluster.run(0.1)

    assert cluster.limit_of("b1") == 0


def test_a_silent_bus_holds_the_limits_and_then_goes_to_equal_parts(cluster: Cluster) -> None:
    """No limit rises; after `hold` limits fall to C/N, after a second `hold` they rise to C/N."""
    cluster.settle(5000, 300, seconds=130)
    high, low = cluster.limit_of("b1"), cluster.limit_of("b2")
    cluster.deaf = {"b1", "b2"}
    cluster.run(20)
    assert cluster.states["b1"].degradations.all() == (Degradation.BUS_SILENT,)
    assert (cluster.limit_of("b1"), cluster.limit_of("b2")) == (high, low)
    cluster.run(25)
    assert (cluster.limit_of("b1"), cluster.limit_of("b2")) == (1500, low)
    cluster.run(30)
    assert (cluster.limit_of("b1"), cluster.limit_of("b2")) == (1500, 1500)
    cluster.deaf = set()
    cluster.run(7)

    assert cluster.states["b1"].lifecycle is Lifecycle.ACTIVE
    assert cluster.limit_of("b1") > 2500


def share_and_fall_silent(cluster: Cluster) -> None:
    """b1 and b2 hold half each when the bus falls silent; b3, if it comes, holds neither."""
    cluster.settle(5000, 5000, seconds=5)
    cluster.deaf = {"b1", "b2", "b3"}
    cluster.run(10)
    assert cluster.states["b1"].degradations.all() == (Degradation.BUS_SILENT,)


def test_a_pause_of_a_producer_costs_it_nothing_while_the_bus_is_silent(cluster: Cluster) -> None:
    """A broker could not get its share back before the bus is back."""
    share_and_fall_silent(cluster)
    cluster.want("b1", 1)
    cluster.run(5)
    cluster.want("b1", 5000)
    cluster.run(5)

    assert [cluster.limit_of(broker) for broker in ("b1", "b2")] == [1500, 1500]


def test_a_lower_limit_lowers_all_parts_alike_while_the_bus_is_silent(cluster: Cluster) -> None:
    """No sidecar knows the others' demands; the limits in force add up to at most the limit."""
    cluster.settle(5000, 500, seconds=130)
    before = [cluster.limit_of(broker) for broker in ("b1", "b2")]
    cluster.deaf = {"b1", "b2"}
    cluster.run(10)
    cluster.set_limit(300)
    cluster.run(2)
    after = [cluster.limit_of(broker) for broker in ("b1", "b2")]

    assert after == [limit * 300 // 3000 for limit in before]
    cluster.set_limit(3000)
    cluster.run(2)
    assert [cluster.limit_of(broker) for broker in ("b1", "b2")] == after


def test_a_newcomers_reserve_is_made_room_for_while_the_bus_is_silent(cluster: Cluster) -> None:
    """ZooKeeper says that it is there: all others keep a little less."""
    share_and_fall_silent(cluster)
    cluster.start("b3", demand=5000)
    cluster.run(2)

    held = [cluster.limit_of(broker) for broker in ("b1", "b2", "b3")]
    assert held[0] == held[1] < 1500
    assert sum(held) <= 3000


def test_a_limit_that_is_put_back_takes_nothing_away_while_the_bus_is_silent(
    cluster: Cluster,
) -> None:
    """No limit rose with it, so none falls: each broker keeps its part of the least limit."""
    share_and_fall_silent(cluster)
    for limit in (30_000, 3000, 30_000, 3000):
        cluster.set_limit(limit)
        cluster.run(0.5)
    assert [cluster.limit_of(broker) for broker in ("b1", "b2")] == [1500, 1500]
    for limit in (300, 3000, 300, 3000):
        cluster.set_limit(limit)
        cluster.run(0.5)

    assert [cluster.limit_of(broker) for broker in ("b1", "b2")] == [150, 150]


def test_a_member_that_comes_and_goes_costs_its_reserve_once_while_the_bus_is_silent(
    cluster: Cluster,
) -> None:
    """Room was made for it the first time, and is still there."""
    share_and_fall_silent(cluster)
    for _ in range(10):
        cluster.start("b3")
        cluster.run(0.3)
        cluster.kill("b3")
        cluster.end_session("b3")
        cluster.run(0.3)

    assert min(cluster.limit_of(broker) for broker in ("b1", "b2")) >= 1490


def test_each_gate_is_told_its_exact_part_of_a_small_limit() -> None:
    """Of 29 a second, three brokers that want more enforce 29/3 each."""
    cluster = Cluster(limit=29)
    cluster.settle(5000, 5000, 5000, seconds=8)

    for state in cluster.states.values():
        (told,) = state.start_over()
        assert told.limits.of(Dimension.PUBLISH_MESSAGES) == Fraction(29, 3)
