"""The stories by name, each with how long its acts last and how what was recorded of it is judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rich.table import Table

from deploy.demo import buckets, result, summary
from deploy.demo.figures import evaluate
from deploy.demo.recording import DemoRecording
from deploy.demo.story import SaturatedStory, Story
from deploy.demo.targets import Targets
from deploy.local.errors import WrongUseError

_ACT_S: Final = 20.0
_MINUTES: Final = 5
_MINUTES_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A judged run: its figures as plain data and as a table under a name, and its missed targets."""

    summary: Mapping[str, Any]
    table: Callable[[str], Table]
    missed: list[str]


@dataclass(frozen=True, slots=True)
class ChosenStory:
    """A story, the length of its acts in seconds, and the judge of its recording."""

    story: type[Story]
    act_s: float
    judge: Callable[[DemoRecording, Targets], JudgedRun]


def chosen_story() -> ChosenStory:
    """Return the story that STORY in the environment names, as long as MINUTES says.

    Raises:
        WrongUseError: there is no such story, or it has no such length.
    """
    name, minutes = os.environ.get("STORY") or "acts", os.environ.get("MINUTES") or ""
    if name == "saturated":
        return ChosenStory(SaturatedStory, 60.0 * _minutes(minutes), _by_buckets)
    if name != "acts":
        raise WrongUseError(f"STORY is {name!r}: use acts, saturated.")
    if minutes:
        raise WrongUseError(f"MINUTES={minutes} belongs to STORY=saturated: leave it out.")
    return ChosenStory(Story, _ACT_S, _by_acts)


def _minutes(text: str) -> int:
    if not text:
        return _MINUTES
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= _MINUTES_MAX):
        raise WrongUseError(f"MINUTES is {text!r}: use a whole number from 1 to {_MINUTES_MAX}.")
    return int(text)


def _by_acts(recording: DemoRecording, targets: Targets) -> JudgedRun:
    figures = evaluate(recording)
    return JudgedRun(
        summary.summary(figures),
        partial(result.table, figures=figures, bounds=targets),
        result.missed(figures, targets),
    )


def _by_buckets(recording: DemoRecording, _targets: Targets) -> JudgedRun:
    figures = buckets.evaluate(recording)
    return JudgedRun(
        buckets.summary(figures),
        partial(buckets.table, figures=figures),
        buckets.missed(figures),
    )
