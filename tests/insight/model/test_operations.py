"""A change on its way: accepted, converging, settled, and who gained and lost."""

from __future__ import annotations

from coordinator.core.events import GroupsChanged
from coordinator.core.model import NANOS_PER_SECOND, Dimension
from coordinator.insight.model.operations import (
    Followed,
    Operation,
    OperationStage,
    advance,
    holdings,
    superseded,
)
from tests.core.cluster import GROUP, Cluster

MESSAGES = Dimension.PUBLISH_MESSAGES


def busy_cluster() -> Cluster:
    """Three saturated brokers share 3,000 messages/s."""
    cluster = Cluster(limit=3_000)
    for broker in ("b1", "b2", "b3"):
        cluster.start(broker, demand=5_000)
    cluster.run(10)
    return cluster


def follow(cluster: Cluster) -> Followed:
    """The operation of a change that is about to be made, followed by b1's sidecar."""
    held = holdings(cluster.states["b1"], GROUP)
    operation = Operation(1, GROUP, 0, f"groups/{GROUP}", "x", "admin", "b1", held)
    return Followed(operation, cluster.now_ns)


def run(cluster: Cluster, followed: Followed, seconds: float, by: str = "b1") -> Followed:
    """Let time pass, and look as often as the shell does."""
    for _ in range(round(seconds / 0.2)):
        cluster.run(0.2)
        followed = advance(followed, cluster.states[by], cluster.now_ns)
    return followed


def test_a_new_limit_converges_and_settles_with_who_gained() -> None:
    """Each of three gets a third of what was added; the time counts from the acceptance."""
    cluster = busy_cluster()
    followed = follow(cluster)
    cluster.set_limit(6_000)

    followed = advance(followed, cluster.states["b1"], cluster.now_ns)
    assert followed.operation.stage is OperationStage.CONVERGING
    followed = run(cluster, followed, 10)

    operation = followed.operation
    assert operation.stage is OperationStage.SETTLED
    assert operation.settle_ns is not None
    assert 0 < operation.settle_ns < 5 * NANOS_PER_SECOND
    assert operation.residual_permille is not None
    assert operation.residual_permille <= 50
    moved = operation.moved[MESSAGES]
    assert set(moved) == {"b1", "b2", "b3"}
    assert all(abs(gained - 1_000) <= 100 for gained in moved.values())


def test_a_lowered_limit_says_who_lost() -> None:
    """A loss is negative."""
    cluster = busy_cluster()
    followed = follow(cluster)
    cluster.set_limit(1_500)

    operation = run(cluster, followed, 10).operation

    assert operation.stage is OperationStage.SETTLED
    assert all(abs(lost + 500) <= 50 for lost in operation.moved[MESSAGES].values())


def test_the_dimension_that_moved_most_is_told_first() -> None:
    """Local limits of bytes move a little, too, when that of messages is doubled."""
    bytes_ = Dimension.PUBLISH_BYTES
    before = {bytes_: {"b1": 15_000, "b2": 15_000}, MESSAGES: {"b1": 500, "b2": 500}}
    moved = {bytes_: {"b1": 900, "b2": -900}, MESSAGES: {"b1": 500, "b2": 500}}
    change = Operation(1, GROUP, 0, f"groups/{GROUP}", "x", "admin", "b1", before, moved=moved)

    assert list(change.view(0).moved) == [MESSAGES, bytes_]
    assert change.view(0).moved == moved


def test_a_sidecar_that_takes_no_part_judges_as_the_others_do() -> None:
    """It goes by what they announce: not settled before they are, and the same gained and lost."""
    cluster = busy_cluster()
    cluster.start("idle")
    cluster.run(10)
    own = watched = follow(cluster)
    cluster.set_limit(6_000)

    watched = advance(watched, cluster.states["idle"], cluster.now_ns)
    assert watched.operation.residual_permille is not None
    assert watched.operation.residual_permille > 400
    for _ in range(50):
        own = run(cluster, own, 0.2)
        watched = advance(watched, cluster.states["idle"], cluster.now_ns)

    assert watched.operation.stage is own.operation.stage is OperationStage.SETTLED
    assert watched.operation.settle_ns is not None
    assert own.operation.settle_ns is not None
    assert abs(watched.operation.settle_ns - own.operation.settle_ns) <= NANOS_PER_SECOND
    gained = watched.operation.moved[MESSAGES]
    assert set(gained) == {"b1", "b2", "b3"}
    assert all(abs(by - own.operation.moved[MESSAGES][name]) <= 60 for name, by in gained.items())


def test_a_definition_that_has_not_arrived_is_only_accepted() -> None:
    """The sidecar decides by the old one."""
    cluster = busy_cluster()
    held = holdings(cluster.states["b1"], GROUP)
    operation = Operation(1, GROUP, 7, f"groups/{GROUP}", "x", "admin", "b1", held)

    followed = run(cluster, Followed(operation, cluster.now_ns), 5)

    assert followed.operation.stage is OperationStage.ACCEPTED


def test_a_short_calm_is_not_settled() -> None:
    """Two rounds of calm are needed, so that a change has had time to move anything."""
    cluster = busy_cluster()
    followed = follow(cluster)

    first = advance(followed, cluster.states["b1"], cluster.now_ns)
    cluster.run(1.0)
    second = advance(first, cluster.states["b1"], cluster.now_ns)
    cluster.run(1.5)
    third = advance(second, cluster.states["b1"], cluster.now_ns)

    assert [each.operation.stage for each in (first, second, third)] == [
        OperationStage.CONVERGING,
        OperationStage.CONVERGING,
        OperationStage.SETTLED,
    ]
    assert third.operation.settle_ns == 0


def test_a_group_that_is_deleted_needs_no_settling() -> None:
    """There is nothing left to share."""
    cluster = busy_cluster()
    followed = follow(cluster)
    cluster.send("b1", GroupsChanged(()))

    followed = advance(followed, cluster.states["b1"], cluster.now_ns)

    assert followed.operation.stage is OperationStage.SETTLED


def test_a_later_change_supersedes_one_that_is_not_settled() -> None:
    """It never settles, and nothing moves it any more."""
    cluster = busy_cluster()
    followed = superseded(follow(cluster), cluster.states["b1"], cluster.now_ns)

    followed = run(cluster, followed, 5)

    assert followed.operation.stage is OperationStage.SUPERSEDED
    assert followed.operation.settle_ns is None


def test_what_does_not_settle_in_ten_minutes_is_given_up() -> None:
    """Something else keeps the group moving."""
    cluster = busy_cluster()
    followed = follow(cluster)

    followed = advance(followed, cluster.states["b1"], cluster.now_ns + 601 * NANOS_PER_SECOND)

    assert followed.operation.stage is OperationStage.UNSETTLED
