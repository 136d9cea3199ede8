"""Transfer policies, the pure half of balanced: who announces how much, and who has room for how much."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.allocation.laws import apportion
from coordinator.core.transfer.policies import ceiling, room

brokers = st.lists(st.sampled_from("abcdef"), min_size=1, unique=True)


def test_a_ceiling_is_the_target_when_there_is_enough_once_all_have_lowered_themselves() -> None:
    """It is announced before the others lower themselves, so that no time is lost."""
    assert ceiling(100, "a", {"a": 80, "b": 20}, {"a": 20, "b": 80}) == 80


def test_targets_that_add_up_to_more_than_the_limit_are_cut_in_proportion_to_need() -> None:
    """Of 100, 20 are left for needs of 60 and 30; c stays at what it holds."""
    targets, in_force = {"a": 70, "b": 40, "c": 60}, {"a": 10, "b": 10, "c": 60}

    assert ceiling(100, "a", targets, in_force) == 10 + 13
    assert ceiling(100, "b", targets, in_force) == 10 + 7


def test_no_raise_is_announced_while_lower_targets_exceed_the_limit() -> None:
    """The lower targets add up to more than the limit, so there is no room to raise."""
    assert ceiling(100, "a", {"a": 50, "b": 80}, {"a": 30, "b": 80}) == 30


def test_room_is_what_no_ceiling_of_the_others_reaches() -> None:
    """The own ceiling does not stand in the own way; more held than there is leaves no room."""
    assert room(100, "a", {"a": 90, "b": 30, "c": 20}) == 50
    assert room(100, "a", {"b": 120}) == -20


@given(
    names=brokers,
    limit=st.integers(0, 10_000),
    wanted=st.lists(st.integers(0, 5_000), min_size=6, max_size=6),
    held=st.lists(st.integers(0, 5_000), min_size=6, max_size=6),
)
def test_with_equal_views_all_ceilings_fit_together(
    names: list[str], limit: int, wanted: list[int], held: list[int]
) -> None:
    """When all above their targets have lowered themselves, the rest may all be raised at once."""
    targets = dict(zip(names, wanted, strict=False))
    in_force = dict(zip(names, held, strict=False))
    after = {
        name: target if target <= in_force[name] else ceiling(limit, name, targets, in_force)
        for name, target in targets.items()
    }

    lowered = sum(min(in_force[name], target) for name, target in targets.items())
    assert sum(after.values()) <= max(limit, lowered)
    assert all(after[name] <= target for name, target in targets.items())


@given(names=brokers, limit=st.integers(0, 10_000), held=st.integers(0, 100))
def test_ceilings_are_the_targets_when_these_add_up_to_the_limit(
    names: list[str], limit: int, held: int
) -> None:
    """Max-min hands out exactly the limit: with equal views no broker waits."""
    targets = apportion(limit, dict.fromkeys(names, 1))
    in_force = dict.fromkeys(names, held)

    for name, target in targets.items():
        assert target <= held or ceiling(limit, name, targets, in_force) == target
