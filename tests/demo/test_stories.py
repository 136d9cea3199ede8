"""The stories by name, and what is refused of STORY and MINUTES."""

from __future__ import annotations

import pytest

from deploy.demo.stories import chosen_story
from deploy.demo.story import SaturatedStory, Story
from deploy.local.errors import WrongUseError


def _chosen(monkeypatch: pytest.MonkeyPatch, story: str, minutes: str = "") -> tuple[object, float]:
    monkeypatch.setenv("STORY", story)
    monkeypatch.setenv("MINUTES", minutes)
    chosen = chosen_story()
    return chosen.story, chosen.act_s


def test_without_a_name_the_acts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of twenty seconds."""
    assert _chosen(monkeypatch, "") == (Story, 20.0)


def test_saturated_lasts_five_minutes_or_as_many_as_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five are WSO2's protocol."""
    assert _chosen(monkeypatch, "saturated") == (SaturatedStory, 300.0)
    assert _chosen(monkeypatch, "saturated", "1") == (SaturatedStory, 60.0)


@pytest.mark.parametrize(
    ("story", "minutes", "error"),
    [
        ("satured", "", "STORY is 'satured': use acts, saturated."),
        ("saturated", "0", "MINUTES is '0': use a whole number from 1 to 60."),
        ("saturated", "1.5", "MINUTES is '1.5': use a whole number from 1 to 60."),
        ("saturated", "²", "MINUTES is '²': use a whole number from 1 to 60."),
        ("saturated", "9" * 5_000, f"MINUTES is '{'9' * 5_000}': use a whole number from 1 to 60."),
        ("", "3", "MINUTES=3 belongs to STORY=saturated: leave it out."),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, story: str, minutes: str, error: str
) -> None:
    """The message has the fix."""
    with pytest.raises(WrongUseError) as refused:
        _chosen(monkeypatch, story, minutes)
    assert str(refused.value) == error
