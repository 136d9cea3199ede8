"""What can go wrong with a demo, beside what can go wrong with its cluster."""

from __future__ import annotations


class DemoError(Exception):
    """The story could not be told to its end; the text says why."""


class WrongUse(Exception):
    """The request makes no sense as it stands; nothing was started."""
