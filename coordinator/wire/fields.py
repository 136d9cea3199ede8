"""The bounds of every field of a report: what came over the bus is checked before it is used."""

from __future__ import annotations

MAX_NAME_LENGTH = 255
MAX_COUNT = 2**63 - 1
_ALL_THE_TIME = 1000


class BadReport(ValueError):
    """A payload on the bus is not a usage report of a sidecar; the message names the field."""


def checked_name(field: str, value: str) -> str:
    """A name as it is; raises BadReport."""
    if not value or len(value) > MAX_NAME_LENGTH:
        raise BadReport(f"{field} has {len(value)} characters, 1 to {MAX_NAME_LENGTH} are allowed")
    return value


def checked_count(field: str, value: int) -> int:
    """A number as it is; raises BadReport."""
    if value > MAX_COUNT:
        raise BadReport(f"{field} is {value}, more than {MAX_COUNT}")
    return value


def checked_permille(where: str, value: int) -> int:
    """A part of the time as it is; raises BadReport."""
    if value > _ALL_THE_TIME:
        raise BadReport(f"{where} was throttled for {value} thousandths of the time")
    return value
