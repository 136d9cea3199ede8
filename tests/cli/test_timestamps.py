"""Times as people say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from coordinator.cli.failures import WrongUse
from coordinator.cli.timestamps import age_of, clock_of

NOW = datetime(2026, 11, 21, 12, 30, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "age"),
    [
        ("12:03", timedelta(minutes=27)),
        ("12:29:30", timedelta(seconds=30)),
        ("12:40", timedelta(hours=23, minutes=50)),
        ("12:03+01:00", timedelta(hours=1, minutes=27)),
        ("2026-11-20T12:30:00", timedelta(days=1)),
        ("2026-11-21T12:30:00+01:00", timedelta(hours=1)),
    ],
)
def test_a_moment_has_an_age(moment: str, age: timedelta) -> None:
    """A time of day is the last one; a date may be any in the past."""
    assert age_of(moment, NOW) == age


@pytest.mark.parametrize("moment", ["noon", "25:00", "2026-11-22T00:00:00", ""])
def test_what_is_no_moment_or_not_yet_is_refused_with_the_forms(moment: str) -> None:
    """The message shows the forms, so the next try succeeds."""
    with pytest.raises(WrongUse, match="use HH:MM"):
        age_of(moment, NOW)


def test_another_day_is_named() -> None:
    """Today's times go without."""
    assert clock_of(60_000, NOW) == "12:29:00"
    assert clock_of(13 * 3_600_000, NOW) == "2026-11-20 23:30:00"
