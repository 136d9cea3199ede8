"""The bounds of every field of a report: bytes from the bus are checked before they are used."""

from __future__ import annotations

from collections.abc import Sized

from coordinator.core.model import MAX_COUNT

MAX_NAME_LENGTH = 255
MAX_NAMED_GROUPS = 20_000
"""The most groups that one report identifies by name; each is an object of its own."""

MAX_GROUPS = 200_000
"""The most groups that one report lists in columns."""

MAX_ENTRIES = 50_000
"""The most entries of any other list in a report."""

MAX_GRANTS = 200_000
"""The most grants and closures in a report: half of it is a thousand strict groups with 100 brokers."""

_ALL_THE_TIME = 1000


class BadReport(ValueError):
    """A payload on the bus is not a usage report of a sidecar; the message names the field.

    Args:
        text: what is wrong with it.
        reason: the same without what the payload itself says, which would make as many reasons as there
            are payloads; if it is not given, the text up to a colon.
    """

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        #: What it is counted under.
        self.reason = reason or text.partition(":")[0]


def checked_name(field: str, value: str | bytes) -> str:
    """Return a name unchanged; raise BadReport if it is not valid."""
    if not isinstance(value, str):  # Protocol Buffers give the bytes of a text that cannot be read
        raise BadReport(f"{field} is no UTF-8: {value!r:.80}")
    if not value or len(value) > MAX_NAME_LENGTH:
        text = f"{field} has {len(value)} characters, 1 to {MAX_NAME_LENGTH} are allowed"
        raise BadReport(text, f"{field} is empty or too long")
    return value


def checked_count(field: str, value: int) -> int:
    """Return a number unchanged; raise BadReport if it is out of bounds."""
    if value > MAX_COUNT:
        raise BadReport(f"{field} is {value}, more than {MAX_COUNT}", f"{field} is too large")
    return value


def checked_permille(where: str, value: int) -> int:
    """Return a part of the time unchanged; raise BadReport if it is out of bounds."""
    if value > _ALL_THE_TIME:
        text = f"{where} was throttled for {value} thousandths of the time"
        raise BadReport(text, f"{where} was throttled for more than all the time")
    return value


def checked_length(field: str, values: Sized, most: int = MAX_ENTRIES) -> None:
    """Raise BadReport if a list is longer than any sidecar's."""
    if len(values) > most:
        text = f"{field} has {len(values)} entries, at most {most} are allowed"
        raise BadReport(text, f"{field} has too many entries")
