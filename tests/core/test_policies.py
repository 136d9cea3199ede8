"""Transfer policies: who may raise how far, and when."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.laws import apportion
from coordinator.core.policies import ANNOUNCED, balanced, eager

brokers = st.lists(st.sampled_from("abcdef"), min_size=1, unique=True)


def test_eager_takes_the_target_at_once() -> None:
    """Eager does not look at what the others hold."""
    assert eager(100, "a", {"a": 80, "b": 20}, {"a": 20, "b": 80}) == 80


def test_balanced_lowers_at_once() -> None:
    """A lower target is in force at once, so that the others find room."""
    assert balanced(100, "b", {"a": 80, "b": 20}, {"a": 20, "b": 80}) == 20


def test_balanced_raises_only_into_what_nobody_holds() -> None:
    """A higher target waits for the others to have announced less."""
    assert balanced(100, "a", {"a": 80, "b": 20}, {"a": 20, "b": 80}) == 20
    assert balanced(100, "a", {"a": 80, "b": 20}, {"a": 20, "b": 50}) == 50
    assert balanced(100, "a", {"a": 80, "b": 20}, {"a": 20, "b": 20}) == 80


def test_balanced_takes_its_part_of_a_slack_that_others_want_too() -> None:
    """Slack of 30 is shared by need, 60 against 30, so that both together take all of it."""
    targets, in_force = {"a": 70, "b": 40, "c": 90}, {"a": 10, "b": 10, "c": 150}

    assert balanced(200, "a", targets, in_force) == 30
    assert balanced(200, "b", targets, in_force) == 20


def test_balanced_raises_nothing_while_more_is_held_than_there_is() -> None:
    """After a limit was lowered nobody raises until the sum has come down."""
    assert balanced(100, "a", {"a": 80, "b": 20}, {"a": 50, "b": 70}) == 50


@given(
    names=brokers,
    limit=st.integers(0, 10_000),
    weights=st.lists(st.integers(0, 10), min_size=6, max_size=6),
    held=st.lists(st.integers(0, 5_000), min_size=6, max_size=6),
)
def test_balanced_never_lets_all_together_pass_more_than_the_limit(
    names: list[str], limit: int, weights: list[int], held: list[int]
) -> None:
    """With equal views, all new limits add up to at most the limit, or to no more than before."""
    targets = apportion(limit, dict(zip(names, weights, strict=False)))
    in_force = dict(zip(names, held, strict=False))
    after = {name: balanced(limit, name, targets, in_force) for name in names}

    assert sum(after.values()) <= max(limit, sum(in_force.values()))
    assert all(after[name] <= max(targets[name], in_force[name]) for name in names)


@given(names=brokers, limit=st.integers(0, 10_000), held=st.integers(0, 100))
def test_every_announced_policy_arrives_at_the_targets(
    names: list[str], limit: int, held: int
) -> None:
    """When views are equal and targets stay, two rounds are enough for those that announce."""
    targets = apportion(limit, dict.fromkeys(names, 1))
    for policy in ANNOUNCED.values():
        in_force = dict.fromkeys(names, held)
        for _ in range(2):
            in_force = {name: policy(limit, name, targets, in_force) for name in names}

        assert in_force == targets
