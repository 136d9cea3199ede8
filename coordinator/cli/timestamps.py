"""Times as users type them: 12:03, 12:03:10, or a whole date."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from coordinator.cli.failures import WrongUse

_FORMS = "use HH:MM, HH:MM:SS (of the last 24 hours) or a date like 2026-11-21T12:03:10"


def age_of(moment: str, now: datetime) -> timedelta:
    """Return the age of a moment.

    Args:
        moment: a time of day in the last 24 hours or an ISO date and time; without a zone in that of
            this machine.
        now: the present, with a zone.

    Raises:
        WrongUse: the moment is neither, or lies in the future.
    """
    try:
        clock = time.fromisoformat(moment)
    except ValueError:
        return _since_date(moment, now)
    here = now if clock.tzinfo is None else now.astimezone(clock.tzinfo)
    then = datetime.combine(here.date(), clock, clock.tzinfo or here.tzinfo)
    return (now - then) % timedelta(days=1)


def clock_of(age_millis: int, now: datetime) -> str:
    """Return the time of an event of this age; with its date if that is another day."""
    then = now - timedelta(milliseconds=age_millis)
    return f"{then:%H:%M:%S}" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M:%S}"


def here_and_now() -> datetime:
    """Return the present, in the zone of this machine."""
    return datetime.now(UTC).astimezone()


def _since_date(moment: str, now: datetime) -> timedelta:
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        raise WrongUse(f"--at {moment} is no time: {_FORMS}.") from None
    age = now - (then if then.tzinfo else then.replace(tzinfo=now.tzinfo))
    if age < timedelta(0):
        raise WrongUse(f"--at {moment} is in the future: {_FORMS}.")
    return age
