"""The environment's settings become a list of runs."""

from __future__ import annotations

import pytest

from deploy.chaos.choices import MOST_MISHAPS, Choice, chosen
from deploy.local.errors import WrongUseError


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment in which nothing is asked for yet."""
    for name in ("SEED", "SEEDS", "MINUTES", "EVERY", "MISHAPS", "POLICY", "ENFORCE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_one_run_of_ten_minutes_is_played_unless_something_is_asked_for(
    ask: pytest.MonkeyPatch,
) -> None:
    """Forty mishaps, balanced, and another seed each time."""
    (choice,), (other,) = chosen(), chosen()

    assert (choice.policy, choice.minutes, len(choice.planned)) == ("balanced", 10.0, 40)
    assert choice.seed != other.seed


def test_a_mishap_a_minute_for_an_hour_is_sixty(ask: pytest.MonkeyPatch) -> None:
    """The number of mishaps follows from their distance."""
    ask.setenv("MINUTES", "60")
    ask.setenv("EVERY", "60")
    (choice,) = chosen()

    assert (choice.every_s, len(choice.planned)) == (60.0, 60)


def test_mishaps_of_one_run_are_bounded(ask: pytest.MonkeyPatch) -> None:
    """However close to each other, or many, they are asked for."""
    ask.setenv("EVERY", "1e-300")
    (choice,) = chosen()
    assert len(choice.planned) == MOST_MISHAPS
    ask.setenv("MISHAPS", "10001")
    with pytest.raises(WrongUseError, match="MISHAPS is 10001: 10,000 are possible at most"):
        chosen()


def test_seeds_are_numbers_and_ranges_each_once_and_in_order(ask: pytest.MonkeyPatch) -> None:
    """As they are given."""
    ask.setenv("SEEDS", "7, 1-3,2-4")
    assert [choice.seed for choice in chosen()] == [7, 1, 2, 3, 4]


def test_of_many_runs_every_other_one_is_strict_and_all_are_short(
    ask: pytest.MonkeyPatch,
) -> None:
    """By the seed, so that the same seed is the same run whichever others are asked for."""
    ask.setenv("SEEDS", "1-4")
    assert [choice.policy for choice in chosen()] == ["balanced", "strict"] * 2
    assert {len(choice.planned) for choice in chosen()} == {4}

    ask.setenv("POLICY", "strict")
    assert {choice.policy for choice in chosen()} == {"strict"}


def test_a_seed_is_the_same_run_alone_and_among_many(ask: pytest.MonkeyPatch) -> None:
    """A finding can be played again."""
    ask.setenv("MISHAPS", "4")
    ask.setenv("SEEDS", "1-3")
    *_, among = chosen()
    ask.delenv("SEEDS")
    ask.setenv("SEED", "3")

    assert chosen() == (Choice(3, "balanced", 10.0, 0.0, among.planned),)


def test_without_gates_nothing_happens_to_one_and_no_group_is_strict(
    ask: pytest.MonkeyPatch,
) -> None:
    """Brokers' own limiters cannot keep strict; their topic of resource usage has an owner to lose."""
    ask.setenv("ENFORCE", "native")
    ask.setenv("SEEDS", "1-40")
    choices = chosen()
    names = {planned.name for choice in choices for planned in choice.planned}

    assert {(choice.path, choice.policy) for choice in choices} == {("native", "balanced")}
    assert "owner-kill" in names
    assert not [name for name in names if name.startswith("gate-")]


def test_a_schedule_with_gates_has_nothing_of_the_native_ones(ask: pytest.MonkeyPatch) -> None:
    """So a seed is the same run as before there were any."""
    ask.setenv("SEEDS", "1-40")
    planned = [planned for choice in chosen() for planned in choice.planned]

    assert {choice.path for choice in chosen()} == {"gate"}
    assert "owner-kill" not in {each.name for each in planned}
