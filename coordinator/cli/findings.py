"""The doctor's findings: each states a fact and, if something is wrong, the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """The severity of a finding: only ``WRONG`` makes the doctor fail."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Args:
        subject: of the check, in a word or two.
        level: its severity.
        text: the fact.
        fix: the remedy; lines after the first are to be copied into a file, and are never folded.
    """

    subject: str
    level: Level
    text: str
    fix: str = ""


def ok(subject: str, text: str) -> Finding:
    """Return a finding without a fault."""
    return Finding(subject, Level.OK, text)


def note(subject: str, text: str, fix: str = "") -> Finding:
    """Return a finding that is worth knowing; nothing is broken."""
    return Finding(subject, Level.NOTE, text, fix)


def wrong(subject: str, text: str, fix: str) -> Finding:
    """Return a finding of a fault, with its remedy."""
    return Finding(subject, Level.WRONG, text, fix)
