"""What the doctor finds: each finding says what is, and when that is wrong, how to set it right."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How a finding is meant: only ``WRONG`` makes the doctor fail."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    level: Level
    text: str
    fix: str = ""


def ok(subject: str, text: str) -> Finding:
    """All is well."""
    return Finding(subject, Level.OK, text)


def note(subject: str, text: str, fix: str = "") -> Finding:
    """Worth knowing; nothing is broken."""
    return Finding(subject, Level.NOTE, text, fix)


def wrong(subject: str, text: str, fix: str) -> Finding:
    """Broken, and this is how to set it right."""
    return Finding(subject, Level.WRONG, text, fix)
